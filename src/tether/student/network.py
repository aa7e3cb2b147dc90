"""The student's networks: domain encoders, light cross-attention over tokens, an LSTM over five periods, heads.

Raw sensor data never meets attention: each modality is encoded first, and carries its age and a mask. Learned queries
attend over the tokens (4 heads; logits over √d and the temperature). What geometry knows is not learned again: the
estimate is a mixture of two analytic places (boxes carried to the present, or the tool itself) and a small residual.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor, nn
from torch.nn import functional

from tether.contracts import DECISION_NS, Primitive
from tether.student import memory
from tether.student.labels import MAX_PARAMS
from tether.student.observation import (
    BOXES,
    IMU_SAMPLES,
    JOINT_MIDDLE,
    JOINT_SCALE,
    MODALITIES,
    NOMINAL_M,
    PERIODS,
    ROLLED,
    SKILL_IDS,
    SKILL_PARAMS,
    STATE_SCALE,
    STATE_SIZE,
    TOKEN_SIZE,
    TOKENS,
)

_CARRIED, _TOOL = 10, 4
ANALYTIC_SIZE = 2 * (_CARRIED + 1) + _TOOL + 3 + 3
"""Analytic features as they enter the recurrence and the heads."""
_PERIOD_S = DECISION_NS * 1e-9
_RESIDUAL_M, _RESIDUAL_M_S, _RESIDUAL_M_S2 = 0.01, 0.1, 1.0


class Compensation(Enum):
    """What of the delays is made up for; the last two are baselines."""

    FULL = "full"
    HISTORY = "history"
    """The newest box is taken for the present; five periods of history to learn from."""
    NONE = "none"
    """The newest box is taken for the present, and there is no recurrence over the periods before."""


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes. width: of a token; queries: learned ones; policy: width of the policy's hidden layers."""

    width: int = 64
    heads: int = 4
    queries: int = 4
    hidden: int = 64
    policy: int = 96
    dropout: float = 0.1
    temperature: float = 0.7
    compensation: Compensation = Compensation.FULL


class CrossAttention(nn.Module):
    """Queries over tokens. Returns what they found (B, Q, W) and their mean attention (B, T)."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        w = config.width
        self.queries = nn.Parameter(torch.randn(config.queries, w) * 0.5)
        self.key, self.value, self.out = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)
        self.ask = nn.Linear(w, w)
        self.norm = nn.LayerNorm(w)
        self.feed = nn.Sequential(nn.LayerNorm(w), nn.Linear(w, 2 * w), nn.GELU(), nn.Linear(2 * w, w))
        self.drop = nn.Dropout(config.dropout)
        self.heads, self.scale = config.heads, math.sqrt(w / config.heads) * config.temperature

    def forward(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """tokens: (B, T, W); mask: (B, T), 1 where there is one."""
        batch, n, w = tokens.shape
        tokens = self.norm(tokens)
        q = self.ask(self.queries).view(1, -1, self.heads, w // self.heads).transpose(1, 2)
        k = self.key(tokens).view(batch, n, self.heads, w // self.heads).transpose(1, 2)
        v = self.value(tokens).view(batch, n, self.heads, w // self.heads).transpose(1, 2)
        logits = q @ k.transpose(-1, -2) / self.scale - 1e4 * (1.0 - mask[:, None, None, :])
        share = torch.softmax(logits, dim=-1)
        found = (self.drop(share) @ v).transpose(1, 2).reshape(batch, -1, w)
        found = self.queries + self.out(found)
        return found + self.feed(found), share.mean(dim=(1, 2))


class Encoders(nn.Module):
    """Every modality into tokens of one width, with age and mask."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        w = config.width
        self.camera = nn.Linear(TOKEN_SIZE + 1, w)
        self.place = nn.Parameter(torch.randn(TOKENS, w) * 0.1)
        self.boxes = _mlp(14, w)
        self.imu = nn.Sequential(
            nn.Conv1d(8, 16, 5, stride=2), nn.GELU(), nn.Conv1d(16, 24, 5, stride=2), nn.GELU(),
            nn.Conv1d(24, 32, 5, stride=2), nn.GELU(), nn.Flatten(), nn.Linear(32 * 9, w),
        )  # fmt: skip
        self.joints = _mlp(13, w)
        self.skill = nn.Linear(SKILL_IDS + SKILL_PARAMS + len(Primitive), w)
        self.step = nn.Linear(8, w)
        self.executed = _mlp(10, w)
        self.when = nn.Parameter(torch.randn(PERIODS, w) * 0.1)
        self.kind = nn.Parameter(torch.randn(len(MODALITIES) + 1, w) * 0.5)

    def forward(self, obs: dict[str, Tensor], camera: bool) -> tuple[Tensor, Tensor]:
        """Tokens (B, T, W) and their mask (B, T): one that is always there, then the modalities in order."""
        batch = obs["joints"].shape[0]
        one = torch.ones(batch, 1)
        parts = [(self.kind[-1].expand(batch, 1, -1), one)]
        if camera:
            age = obs["tokens_age"][:, None, :].expand(-1, TOKENS, -1)
            seen = self.camera(torch.cat((obs["tokens"], age), dim=-1)) + self.place
            parts.append((seen + self.kind[0], obs["tokens_mask"].expand(-1, TOKENS)))
        boxes = self.boxes(torch.cat((obs["boxes"], obs["boxes_age"]), dim=-1))
        parts.append((boxes + self.kind[1], obs["boxes_mask"]))
        parts.append((self.imu(obs["imu"])[:, None] + self.kind[2], obs["imu_mask"]))
        joints = self.joints(torch.cat((obs["joints"], obs["joints_age"]), dim=-1))
        parts.append((joints[:, None] + self.kind[3], obs["joints_mask"]))
        skill = self.skill(torch.cat((obs["skill"], obs["skill_params"]), dim=-1))
        parts.append((skill[:, None] + self.kind[4], one))
        parts.append((self.step(obs["step"])[:, None] + self.kind[5], one))
        executed = self.executed(obs["executed"]) + self.when
        parts.append((executed + self.kind[6], obs["executed_mask"]))
        return torch.cat([t for t, _ in parts], dim=1), torch.cat([m for _, m in parts], dim=1)

    def shares(self, attention: Tensor, camera: bool) -> Tensor:
        """(B, len(MODALITIES)) of attention (B, T); what the token that is always there has is left out."""
        sizes = [TOKENS if camera else 0, BOXES, 1, 1, 1, 1, PERIODS]
        at, out = 1, []
        for size in sizes:
            out.append(attention[:, at : at + size].sum(dim=1))
            at += size
        return torch.stack(out, dim=1)


@dataclass(frozen=True, eq=False)
class Fused:
    """Output of fusion. p, v, a: (B, 3) SI; log_sigma: (B, 1), of the position in metres; states: (B, 1 + ROLLED,
    STATE_SIZE) scaled; features: (B, F); attention: (B, len(MODALITIES)); summary: (B, S) of this period."""

    p: Tensor
    v: Tensor
    a: Tensor
    log_sigma: Tensor
    states: Tensor
    features: Tensor
    attention: Tensor
    summary: Tensor


class FusionNet(nn.Module):
    """Observations of a decision and summaries of the four before it into a state."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.encoders = Encoders(config)
        self.attend = CrossAttention(config)
        self.pool = nn.Sequential(nn.Linear(config.queries * config.width, config.width), nn.GELU())
        self.summary_size = config.width + ANALYTIC_SIZE + 10
        self.lstm = nn.LSTM(self.summary_size, config.hidden, batch_first=True)
        head = config.hidden + self.summary_size
        estimate, following = nn.Linear(96, 11), nn.Linear(64, STATE_SIZE)
        self.estimate = nn.Sequential(nn.Linear(head, 96), nn.GELU(), estimate)
        self.roll = nn.LSTMCell(STATE_SIZE, config.hidden)
        self.roll_in = nn.Linear(config.hidden, config.hidden)
        self.now = nn.Linear(head, STATE_SIZE)
        self.next = nn.Sequential(nn.Linear(config.hidden, 64), nn.GELU(), following)
        self.feature_size = config.hidden + config.width + 14
        self.scale: Tensor
        self.register_buffer("scale", torch.tensor(STATE_SCALE))
        for last in (estimate, self.now, following):
            nn.init.normal_(last.weight, std=0.01)  # the analytic features stand at first
            nn.init.zeros_(last.bias)

    def summarise(self, obs: dict[str, Tensor], camera: bool) -> tuple[Tensor, Tensor]:
        """(B, summary_size) of each observation alone, and its attention (B, len(MODALITIES))."""
        tokens, mask = self.encoders(obs, camera)
        found, attention = self.attend(tokens, mask)
        pooled = self.pool(found.flatten(1))
        last = obs["executed"][:, -1] * obs["executed_mask"][:, -1:]
        summary = torch.cat((pooled, self._analytic(obs), last), dim=-1)
        return summary, self.encoders.shares(attention, camera)

    def forward(self, obs: dict[str, Tensor], summaries: Tensor, attention: Tensor) -> Fused:
        """summaries: (B, PERIODS, S), oldest first, the last of `obs`; zeros where there was no decision."""
        if self.config.compensation is Compensation.NONE:
            summaries = torch.cat((torch.zeros_like(summaries[:, :-1]), summaries[:, -1:]), dim=1)
        summary = summaries[:, -1]
        out, (h, c) = self.lstm(summaries)
        head = torch.cat((out[:, -1], summary), dim=-1)
        raw = self.estimate(head)
        p, v, a = self._estimate(obs, raw)
        log_sigma = -5.5 + 2.0 * torch.tanh(raw[:, 10:11])
        states = self._predict(obs, p, v, a, head, h[0], c[0])
        tool = obs["tool"][:, :3]
        known = torch.cat(
            ((p - tool) / 0.03, (p - p.new_tensor(NOMINAL_M)) / 0.1, v / 0.2, a / 2.0, log_sigma + 5.5, raw[:, :1]),
            dim=-1,
        )
        features = torch.cat((out[:, -1], summary[:, : self.config.width], known), dim=-1)
        return Fused(p, v, a, log_sigma, states, features, attention, summary)

    # -- Analytic parts --------------------------------------------------------------------------------------------

    def _anchor(self, obs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """(B, 10) cube in SI from whatever there is, and (B, 1) whether there is anything."""
        nominal = obs["carried"].new_tensor((*NOMINAL_M, 0, 0, 0, 0, 0, 0, 0)).expand_as(obs["carried"])
        if self.config.compensation is not Compensation.FULL:
            newest = torch.cat((obs["boxes"][:, 0, 7:9] * 0.1 + nominal[:, :2], nominal[:, 2:]), dim=-1)
            there = obs["boxes_mask"][:, :1]
            return torch.where(there > 0, newest, nominal), there
        coasted = torch.where(obs["coasted_mask"] > 0, obs["coasted"], nominal)
        return torch.where(obs["carried_mask"] > 0, obs["carried"], coasted), obs["coasted_mask"]

    def _analytic(self, obs: dict[str, Tensor]) -> Tensor:
        anchor, there = self._anchor(obs)
        scale = anchor.new_tensor((0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 2.0, 2.0, 2.0, 0.01))
        middle = anchor.new_tensor((*NOMINAL_M, 0, 0, 0, 0, 0, 0, 0))
        full = self.config.compensation is Compensation.FULL
        coasted, carried = obs["coasted"], obs["carried_mask"]
        second = torch.where(obs["coasted_mask"] > 0, coasted, middle.expand_as(coasted)) if full else anchor
        tool = (obs["tool"] - obs["tool"].new_tensor((*NOMINAL_M[:2], 0.05, 0.03))) / obs["tool"].new_tensor(
            (0.1, 0.1, 0.05, 0.02)
        )
        known = obs["joints_mask"]
        age = obs["boxes_age"][:, 0] if self.config.compensation is not Compensation.NONE else torch.zeros_like(there)
        return torch.cat(
            (
                ((anchor - middle) / scale).clamp(-8, 8), there,
                ((second - middle) / scale).clamp(-8, 8), carried if full else there,
                tool * known,
                ((anchor[:, :3] - obs["tool"][:, :3]) / 0.03).clamp(-8, 8) * known * there,
                age * there, known, obs["imu_mask"],
            ),
            dim=-1,
        )  # fmt: skip

    def _estimate(self, obs: dict[str, Tensor], raw: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        anchor, _ = self._anchor(obs)
        # In the hand the cube is where the tool is; raw[:, 0] says how likely that is.
        in_hand = torch.sigmoid(raw[:, :1] - 3.0) * obs["joints_mask"]
        ground = 1.0 - in_hand
        p = ground * anchor[:, :3] + in_hand * obs["tool"][:, :3] + _RESIDUAL_M * raw[:, 1:4]
        v = ground * anchor[:, 3:6] + _RESIDUAL_M_S * raw[:, 4:7]
        a = ground * anchor[:, 6:9] + _RESIDUAL_M_S2 * raw[:, 7:10]
        return p, v, a

    def _predict(
        self, obs: dict[str, Tensor], p: Tensor, v: Tensor, a: Tensor, head: Tensor, h: Tensor, c: Tensor
    ) -> Tensor:
        """States of now and the ROLLED next periods, each from the one before it."""
        tool = obs["tool"][:, :3]
        joints = obs["joints"][:, :6] * obs["joints"].new_tensor(JOINT_SCALE) + obs["joints"].new_tensor(JOINT_MIDDLE)
        turning = obs["imu"][:, 2, -10:].mean(dim=-1, keepdim=True)
        twist = torch.cat((-v[:, :2], turning), dim=-1)
        state = torch.cat((p - tool, twist, joints), dim=-1) / self.scale + self.now(head)
        # The cell's memory starts from the estimate's; what moves whom is for it to learn.
        h = torch.tanh(self.roll_in(h))
        states = [state]
        for _ in range(ROLLED):
            h, c = self.roll(state, (h, c))
            drift = functional.pad(-state[:, 3:5] * (STATE_SCALE[3] * _PERIOD_S / STATE_SCALE[0]), (0, STATE_SIZE - 2))
            state = state + drift + self.next(h)
            states.append(state)
        return torch.stack(states, dim=1)


class PolicyNet(nn.Module):
    """Features and the policy's own memory into a hybrid action."""

    def __init__(self, config: NetworkConfig, feature_size: int) -> None:
        super().__init__()
        w = config.policy
        self.body = nn.Sequential(
            nn.Linear(feature_size + memory.SIZE, w), nn.GELU(), nn.Dropout(config.dropout), nn.Linear(w, w), nn.GELU()
        )
        self.primitive = nn.Linear(w, len(Primitive))
        self.params = nn.Linear(w, len(Primitive) * MAX_PARAMS)

    def forward(self, features: Tensor, remembered: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, len(Primitive)) and mean parameters (B, len(Primitive), MAX_PARAMS), -1 to 1 within bounds."""
        x = self.body(torch.cat((features, remembered), dim=-1))
        return self.primitive(x), torch.tanh(self.params(x)).view(-1, len(Primitive), MAX_PARAMS)


class StudentNet(nn.Module):
    """Both nets, for training: every decision of a sequence at once."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.fusion = FusionNet(config)
        self.policy = PolicyNet(config, self.fusion.feature_size)

    def forward(self, obs: dict[str, Tensor], remembered: Tensor, camera: bool) -> tuple[Fused, Tensor, Tensor]:
        """obs: (B, T, …) each; remembered: (B, T, memory.SIZE). Outputs with B · T in front."""
        batch, steps = remembered.shape[:2]
        flat = {name: value.flatten(0, 1) for name, value in obs.items()}
        summary, attention = self.fusion.summarise(flat, camera)
        lines = summary.view(batch, steps, -1)
        padded = functional.pad(lines, (0, 0, PERIODS - 1, 0))
        windows = padded.unfold(1, PERIODS, 1).permute(0, 1, 3, 2).flatten(0, 1)
        fused = self.fusion(flat, windows, attention)
        logits, params = self.policy(fused.features, remembered.flatten(0, 1))
        return fused, logits, params


def _mlp(inputs: int, width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, width), nn.GELU(), nn.Linear(width, width))


assert IMU_SAMPLES == 100, "the convolutions over the IMU's window are made for 100 readings"
