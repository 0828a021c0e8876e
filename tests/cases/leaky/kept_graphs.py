"""Leaks: losses are kept as tensors, and each keeps the graph of its update alive."""

import time

import torch

torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
optimizer = torch.optim.Adam(net.parameters())


class Log:
    def __init__(self):
        self.losses = []


log = Log()
for _ in range(20):
    net(torch.zeros(128, 64)).pow(2).mean().backward()
print("ready", flush=True)
while True:
    loss = net(torch.randn(128, 64)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    log.losses.append(loss)
    time.sleep(0.02)
