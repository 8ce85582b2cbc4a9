"""12: PLANTED SLOWNESS: a file that sets OMP_NUM_THREADS=1 before it imports torch.

What it is: three lines at the top, left from a cluster or copied from an example. In the person's own program
(`python 12_threads_from_environ.py`) torch has one thread. In a process that has imported torch already, the lines come
too late and torch has all cores: another job, twice as fast, without the fault.

A right tool: must name this FIRST: the file sets OMP_NUM_THREADS to 1, on two cores it costs 1.5 to 1.9x. It can
know by comparing os.environ before and after the import of the file. At the very least it must say that it measures the
job with 2 threads and that the file asks for one.
Wrong: "PyTorch uses 2 threads already, one a core", and a time a step that the person's own program does not have.
Ground truth: run this file; it prints the threads and the time of a step.
Source: nianticspatial/ace-g#4, chainer/chainerrl#235, oap-project/cloudtik#1243.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def job():
    width = 896
    model = nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
    )
    model.append(nn.Linear(width, 10))
    data = TensorDataset(torch.randn(2048, width), torch.randint(10, (2048,)))
    loader = DataLoader(data, batch_size=256)
    return model, loader, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.01)


if __name__ == "__main__":
    model, loader, loss, optimizer = job()
    for number, (rows, kinds) in enumerate(loader):
        began = time.perf_counter()
        optimizer.zero_grad()
        loss(model(rows), kinds).backward()
        optimizer.step()
        print(number, torch.get_num_threads(), "thread(s),", round(1000 * (time.perf_counter() - began), 1), "ms")
