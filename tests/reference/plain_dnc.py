"""Plain implementation of our DNC, the reference for the fast one in `srlviz.memories.dnc`; not popgym's.

popgym's DNC is that of the package dnc 1.1.0 (https://github.com/ixaxaar/pytorch-dnc, MIT). That package has defects
that ours does not have (listed in nbs/04_memories/05_dnc), so the two cannot be equal. The order of steps here is that
package's; the read vectors that are fed back and the lengths of keys are ours.
"""

import torch
import torch.nn.functional as F
from reference.popgym_memories_recurrent import pairs_of
from torch import nn

from srlviz.memories.dnc import ALIKE, DNC


class PlainDNC(nn.Module):
    "A DNC that computes one step at a time, one equation after the other."

    def __init__(self, n_in: int, H: int = 256, N: int = 16, W: int = 16, R: int = 4):
        super().__init__()
        self.H, self.N, self.W, self.R = H, N, W, R
        self.lstm = nn.LSTM(n_in + R * W, H, batch_first=True)
        self.interface = nn.Linear(H, R * W + 3 * W + 5 * R + 3)
        self.output = nn.Linear(H + R * W, H)

    def forward(self, x):
        B, N, W, R = len(x), self.N, self.W, self.R

        def zeros(*shape):
            return x.new_zeros(B, *shape)

        control = x.new_zeros(1, B, self.H), x.new_zeros(1, B, self.H)
        state = zeros(N, W), zeros(N, N), zeros(1, N), zeros(R, N), zeros(1, N), zeros(N)
        reads = zeros(R * W)
        outputs = []
        for t in range(x.shape[1]):
            hidden, control = self.lstm(torch.cat([x[:, t], reads], 1)[:, None], control)
            hidden = hidden[:, 0].clamp(-20, 20)
            reads, state = self.step(self.interface(hidden), state)
            outputs.append(self.output(torch.cat([hidden, reads], 1)))
        return torch.stack(outputs, 1)

    def step(self, interface, state):
        memory, link, precedence, read, written, usage = state
        N, W, R = self.N, self.W, self.R
        rk, wk, v, e, f, ga, gw, rs, ws, modes = interface.split([R * W, W, W, W, R, 1, 1, R, 1, 3 * R], 1)
        rk, wk, v = torch.tanh(rk).view(-1, R, W), torch.tanh(wk)[:, None], torch.tanh(v)[:, None]
        e, f, ga, gw = e.sigmoid()[:, None], f.sigmoid(), ga.sigmoid()[:, None], gw.sigmoid()[:, None]
        rs, ws, modes = F.softplus(rs), F.softplus(ws), modes.reshape(-1, R, 3).softmax(-1)
        usage = (usage + (1 - usage) * (1 - torch.prod(1 - written, 1))) * torch.prod(1 - f[:, :, None] * read, 1)
        matches = self.content(memory, wk, ws)
        use = 1e-6 + (1 - 1e-6) * usage
        cell = torch.arange(use.shape[1])
        not_more = use[:, None] <= use[:, :, None] + ALIKE
        less = use[:, None] < use[:, :, None] - ALIKE
        # precedes[i, j]: j is used less than i, or alike and j < i
        precedes = torch.where(cell < cell[:, None], not_more, less)
        order = precedes.sum(2).argsort(dim=1, stable=True)
        ordered = use.gather(1, order)
        free = (1 - ordered) * torch.cumprod(torch.cat([torch.ones_like(ordered[:, :1]), ordered], 1), 1)[:, :-1]
        allocation = free.gather(1, order.argsort(1))[:, None]
        written = gw * (ga * allocation + (1 - ga) * matches)
        memory = memory * torch.prod(1 - written[..., None] * e[:, :, None], 1)
        memory = memory + torch.bmm(written.transpose(1, 2), v)
        i, j = written.transpose(1, 2), written
        link = (1 - torch.eye(N).to(link)) * ((1 - i - j) * link + i * precedence)
        precedence = (1 - written.sum(2, keepdim=True)) * precedence + written
        forward = torch.matmul(link, read.transpose(1, 2)).transpose(1, 2)
        backward = torch.matmul(read, link)
        read = modes[..., :1] * backward + modes[..., 1:2] * forward + modes[..., 2:] * self.content(memory, rk, rs)
        return torch.bmm(read, memory).flatten(1), (memory, link, precedence, read, written, usage)

    @staticmethod
    def content(memory, keys, strengths):
        def length(v):
            return (v.square().sum(-1) + 1e-6).sqrt()

        cosine = torch.bmm(memory, keys.transpose(1, 2)) / (length(memory)[:, :, None] * length(keys)[:, None])
        return torch.softmax(cosine.transpose(1, 2) * strengths[:, :, None], 2)


def dnc(n_in: int = 128):
    ours = DNC(n_in)
    plain = PlainDNC(n_in)
    # ours: read keys, write key, write vector | erase, free, allocate, write | strengths | modes; as in PlainDNC
    our_weights = [*ours.controller.parameters(), *ours.interface.parameters(), *ours.output.parameters()]
    plain_weights = [*plain.lstm.parameters(), *plain.interface.parameters(), *plain.output.parameters()]
    return ours, lambda x: ours(x)[0], plain, plain, pairs_of(our_weights, plain_weights)


# name: n_in -> (our memory, our x -> y, the plain x -> y, the plain module, pairs of functions returning gradients)
MODELS = dict(DNC=dnc)
