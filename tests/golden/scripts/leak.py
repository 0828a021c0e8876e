"""A loop of one's own whose log keeps every loss, and with it every graph."""

import torch
from torch import nn

net = nn.Sequential(nn.Linear(64, 1024), nn.Tanh(), nn.Linear(1024, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
history = []  # for the plot at the end

for iteration in range(20_000):
    batch = torch.randn(256, 64)
    loss = net(batch).square().mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    history.append(loss)
    if iteration % 100 == 0:
        print(iteration, sum(history) / len(history))
