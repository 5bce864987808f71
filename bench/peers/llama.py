"""The Llama that the peers train: plain PyTorch modules, the same computation as braid's."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def rope_cache(seq, dim, theta=10000.0):
    freqs = 1.0 / theta ** (torch.arange(0, dim, 2).float() / dim)
    angles = torch.outer(torch.arange(seq).float(), freqs)
    return torch.cos(angles), torch.sin(angles)


def rope(x, cos, sin):  # x: [B, H, S, D], halves rotated as in HF Llama
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, hd = c.hidden, c.hidden // c.heads
        self.heads, self.kv, self.hd = c.heads, c.kv_heads, hd
        self.q = nn.Linear(d, c.heads * hd, bias=False)
        self.k = nn.Linear(d, c.kv_heads * hd, bias=False)
        self.v = nn.Linear(d, c.kv_heads * hd, bias=False)
        self.o = nn.Linear(c.heads * hd, d, bias=False)
        cos, sin = rope_cache(c.seq, hd)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, h):
        b, s, _ = h.shape
        q = self.q(h).view(b, s, self.heads, self.hd).transpose(1, 2)
        k = self.k(h).view(b, s, self.kv, self.hd).transpose(1, 2)
        v = self.v(h).view(b, s, self.kv, self.hd).transpose(1, 2)
        q, k = rope(q, self.cos.to(q), self.sin.to(q)), rope(k, self.cos.to(k), self.sin.to(k))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv != self.heads)
        return self.o(o.transpose(1, 2).reshape(b, s, -1))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate, self.up = nn.Linear(c.hidden, c.ffn, bias=False), nn.Linear(c.hidden, c.ffn, bias=False)
        self.down = nn.Linear(c.ffn, c.hidden, bias=False)

    def forward(self, h):
        return self.down(F.silu(self.gate(h)) * self.up(h))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n1, self.n2 = RMSNorm(c.hidden), RMSNorm(c.hidden)
        self.attention, self.mlp = Attention(c), Mlp(c)

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.mlp(self.n2(x))


class Stage(nn.Module):
    """`layers` decoder layers, with the embedding on the first stage and norm and head on the last."""

    def __init__(self, c, layers, first, last):
        super().__init__()
        self.embed = nn.Embedding(c.vocab, c.hidden) if first else None
        self.layers = nn.ModuleList(Layer(c) for _ in range(layers))
        self.norm = RMSNorm(c.hidden) if last else None
        self.head = nn.Linear(c.hidden, c.vocab, bias=False) if last else None

    def forward(self, x):
        if self.embed is not None:
            x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)) if self.head is not None else x


def loss_fn(logits, target):
    return F.cross_entropy(logits.flatten(0, 1).float(), target.flatten())


def add_model_arguments(parser):
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--ffn", type=int, default=1408)
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--seq", type=int, default=512)
