"""What a person may give that is no job, or one that cannot be measured."""

import os
import threading
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def raises():
    raise ValueError("no such checkpoint")


def nothing():
    pass


def a_number():
    return 3


def of_three():
    return nn.Linear(1, 1), 1, 2


def no_optimizer_fourth():
    return nn.Linear(1, 1), [1], None, "adam"


SHARED = nn.Linear(4, 1)
ENDLESS = iter(lambda: (torch.ones(2, 4), torch.ones(2, 1)), None)


def the_same_model():
    return SHARED, [torch.ones(2, 4)]


def the_same_iterator():
    model = nn.Linear(4, 1)
    return model, ENDLESS, nn.functional.mse_loss, torch.optim.SGD(model.parameters(), 0.1)


def no_gradient():
    model = nn.Linear(4, 1)
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=4)
    return model, loader, lambda outputs, targets: targets.sum(), torch.optim.SGD(model.parameters(), 0.1)


def other_parameters():
    model = nn.Linear(4, 1)
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=4)
    return model, loader, nn.MSELoss(), torch.optim.SGD(nn.Linear(4, 1).parameters(), 0.1)


def nan():
    model = nn.Linear(4, 1)
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.full((8, 1), float("nan"))), batch_size=4)
    return model, loader, nn.MSELoss(), torch.optim.SGD(model.parameters(), 0.1)


def wrong_shape():
    return nn.Linear(4, 1), torch.randn(2, 5)


def leaves():
    os._exit(3)


def hangs():
    time.sleep(1000)


def learner():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


def training(model, **loading):
    data = TensorDataset(torch.randn(64, 64), torch.randn(64, 1))
    return model, DataLoader(data, batch_size=16, **loading), nn.MSELoss(), torch.optim.SGD(model.parameters(), 0.1)


def drawn_anew():
    torch.manual_seed(int.from_bytes(os.urandom(4)))
    return training(learner())


def other_shapes():
    """As of detection, whose boxes differ in number."""
    shown = int.from_bytes(os.urandom(1)) + 1
    return lambda: torch.ones(shown)


def own_seed():
    torch.manual_seed(7)
    return training(learner())


def large(gib=1):
    return nn.Linear(16384, gib * 16384), torch.randn(1, 16384)


def own_thread():
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    return training(learner())


def own_workers():
    return training(learner(), num_workers=1)


a_word = "no function"
