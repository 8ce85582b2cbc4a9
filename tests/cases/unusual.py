"""Forms that others stumbled over, and that can be measured and compared. Reports by repository."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def closure_in_a_step():
    """pytorch/ignite#610: a step of LBFGS is several evaluations of the loss."""
    model, where = nn.Sequential(nn.Linear(2, 96), nn.Tanh(), nn.Linear(96, 1)), torch.rand(512, 2)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")

    def evaluated():
        optimizer.zero_grad()
        loss = F.mse_loss(model(where), (6 * where[:, :1]).sin())
        loss.backward()
        return loss

    return lambda: optimizer.step(evaluated).detach()


def two_players():
    """davidtvs/pytorch-lr-finder#16: an adversarial pair, with an optimizer each."""
    maker, judge = nn.Linear(32, 256), nn.Sequential(nn.Linear(256, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    of_maker, of_judge = (torch.optim.Adam(one.parameters(), lr=2e-4) for one in (maker, judge))
    real = torch.rand(128, 256).round()

    def step():
        made = maker(torch.randn(128, 32))
        of_judge.zero_grad()
        judged = F.softplus(-judge(real)).mean() + F.softplus(judge(made.detach())).mean()
        judged.backward()
        of_judge.step()
        of_maker.zero_grad()
        fooled = F.softplus(-judge(made)).mean()
        fooled.backward()
        of_maker.step()
        return judged.detach(), fooled.detach()

    return step


def sparse_gradients():
    """pytorch/pytorch#41966 and #82486: for a sparse tensor much of torch has no operation."""
    model = nn.Sequential(nn.Embedding(1000, 64, sparse=True), nn.Flatten(), nn.Linear(64 * 30, 1))
    data = TensorDataset(torch.randint(1000, (512, 30)), torch.randint(2, (512, 1)).float())
    loader = DataLoader(data, batch_size=128, shuffle=True)
    return model, loader, nn.BCEWithLogitsLoss(), torch.optim.SGD(model.parameters(), lr=0.5)


def nested_targets():
    """davidtvs/pytorch-lr-finder#12: pictures, with masks and the weight of each pixel."""
    model = nn.Sequential(nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 1, 1))
    pictures = torch.rand(128, 1, 40, 40)
    data = TensorDataset(pictures, (pictures > 0.7).float(), 0.5 + pictures)

    def nested(items):
        inputs, masks, weights = (torch.stack(part) for part in zip(*items, strict=True))
        return inputs, (masks, weights)

    loader = DataLoader(data, batch_size=16, shuffle=True, collate_fn=nested)
    loss = lambda outputs, targets: F.binary_cross_entropy_with_logits(outputs, targets[0], weight=targets[1])  # noqa: E731
    return model, loader, loss, torch.optim.Adam(model.parameters(), lr=1e-3)
