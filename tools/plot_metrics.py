#!/usr/bin/env python3
"""Draws the losses of one or several runs as an SVG picture.

Reads the metrics.jsonl that braid pretrain writes. A faint line shows every training step, a strong one the mean over neighbouring steps,
and circles the evaluations. Needs nothing but Python.
"""
import argparse
import html
import json
import math
import pathlib
import sys

WIDTH, HEIGHT = 880, 480
LEFT, RIGHT, TOP, BOTTOM = 72, 28, 84, 62
COLOURS = ("#1f6fb5", "#d1602c", "#2d8a57", "#8a4fa3", "#b8862b", "#5b6770")
INK, SOFT, GRID, PAPER = "#23292f", "#66707a", "#e4e7ea", "#fcfcfb"
MOST_STEPS_IN_MEAN = 50


class InputError(Exception):
    """An error to show to the user."""


class Run:
    """What one metrics.jsonl holds: (x, loss) of steps and of evaluations, x in steps or tokens."""

    def __init__(self, path, label, axis):
        self.label = label
        self.train, self.evaluations = [], []
        self.tokens, self.seconds = 0, 0.0
        where = {0: 0}
        for record in records(path):
            if record["type"] == "train":
                self.tokens += record["tokens"]
                self.seconds += record["step_seconds"]
                where[record["global_step"]] = self.tokens if axis == "tokens" else record["global_step"]
                add_point(self.train, where[record["global_step"]], record["loss"])
            elif record["type"] == "eval":
                add_point(self.evaluations, where.get(record["global_step"], 0), record["eval_loss"])
        if not self.train and not self.evaluations:
            raise InputError(f"{path} contains no step and no evaluation yet")

    def points(self):
        return self.train + self.evaluations


def add_point(points, x, loss):
    if loss is not None:  # the loss was not finite
        points.append((x, loss))


def records(path):
    try:
        text = pathlib.Path(path).read_text()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    lines = text.split("\n")[:-1]  # text after the last newline is a line still being written
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            needed = ("tokens", "step_seconds", "global_step", "loss") if record["type"] == "train" else ("global_step",)
            if any(name not in record for name in needed):
                raise KeyError
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path}:{number}: not a line of braid's metrics.jsonl") from None
        yield record


def smooth(points):
    """The mean over a window around each point, and the window's length."""
    half = min(MOST_STEPS_IN_MEAN, len(points) // 30) // 2
    result = []
    for i, (x, _) in enumerate(points):
        reach = min(half, i, len(points) - 1 - i)
        window = [loss for _, loss in points[i - reach:i + reach + 1]]
        result.append((x, sum(window) / len(window)))
    return result, 2 * half + 1


def ticks(low, high, wanted):
    """Round numbers that divide [low, high] into about `wanted` parts."""
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def number_text(value):
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):.4g}{unit}"
    return f"{value:.6g}"


class Picture:
    def __init__(self, runs):
        points = [point for run in runs for point in run.points()]
        self.x_high = max(max(x for x, _ in points), 1)
        losses = [loss for _, loss in points]
        margin = max((max(losses) - min(losses)) * 0.06, 0.02)
        self.y_low, self.y_high = max(min(losses) - margin, 0), max(losses) + margin
        self.parts = []

    def x(self, value):
        return LEFT + value / self.x_high * (WIDTH - LEFT - RIGHT)

    def y(self, loss):
        return HEIGHT - BOTTOM - (loss - self.y_low) / (self.y_high - self.y_low) * (HEIGHT - TOP - BOTTOM)

    def add(self, text):
        self.parts.append(text)

    def text(self, x, y, words, colour=INK, size=13, anchor="start", more=""):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" text-anchor="{anchor}"{more}>{html.escape(words)}</text>')

    def line(self, points, colour, width, opacity):
        path = " ".join(f"{self.x(x):.1f},{self.y(loss):.1f}" for x, loss in self.visible(points))
        self.add(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-opacity="{opacity}" '
                 'stroke-linejoin="round" stroke-linecap="round"/>')

    def visible(self, points):
        """Of many points in one column of the picture, only the lowest and the highest: no others are visible."""
        if len(points) <= 2 * WIDTH:
            return points
        columns = {}
        for point in points:
            columns.setdefault(round(self.x(point[0])), []).append(point)
        return [point for column in columns.values()
                for point in sorted({min(column, key=lambda p: p[1]), max(column, key=lambda p: p[1])})]

    def axes(self, axis):
        bottom = HEIGHT - BOTTOM
        losses = ticks(self.y_low, self.y_high, 6)
        digits = max(len(f"{value:.6g}".partition(".")[2]) for value in losses)
        for value in losses:
            y = self.y(value)
            self.add(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>')
            self.text(LEFT - 10, y + 4, f"{value:.{digits}f}", SOFT, anchor="end")
        self.add(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}" stroke="{SOFT}"/>')
        for value in ticks(0, self.x_high, 8):
            x = self.x(value)
            self.add(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}" stroke="{SOFT}"/>')
            self.text(x, bottom + 20, number_text(value), SOFT, anchor="middle")
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "training tokens" if axis == "tokens" else "optimizer steps", anchor="middle")
        middle = (TOP + bottom) / 2
        self.text(20, middle, "loss (nats per token)", anchor="middle", more=f' transform="rotate(-90 20 {middle:.1f})"')

    def steps(self, run, colour):
        if smooth(run.train)[1] > 1:
            self.line(run.train, colour, 1, 0.3)

    def run(self, run, colour, behind):
        """`behind` runs are drawn over this one, which is that much wider, so that equal curves all remain visible."""
        strong, window = smooth(run.train)
        self.line(strong, colour, 2 + 2.5 * behind, 1)
        for x, loss in run.evaluations:
            self.add(f'<circle cx="{self.x(x):.1f}" cy="{self.y(loss):.1f}" r="4.5" fill="{PAPER}" stroke="{colour}" stroke-width="2"/>')
        if run.evaluations:
            x, loss = run.evaluations[-1]
            self.text(min(self.x(x), WIDTH - RIGHT) - 2, self.y(loss) - 12, f"{loss:.3f}", colour, anchor="end", more=' font-weight="600"')
        return window

    def legend(self, runs, windows):
        """Top right: the runs by colour, then what lines and circles mean."""
        entries = [(colour_of(i), "line", run.label) for i, run in enumerate(runs)] if len(runs) > 1 else []
        colour = SOFT if entries else colour_of(0)
        window = max(windows)
        entries.append((colour, "line", "training" if window == 1 else f"training, mean of {window} steps"))
        if any(run.evaluations for run in runs):
            entries.append((colour, "circle", "evaluation"))
        widest = max(len(words) for _, _, words in entries)
        x, y = WIDTH - RIGHT - 44 - 7 * widest, TOP + 16
        for colour, shape, words in entries:
            if shape == "line":
                self.add(f'<line x1="{x}" x2="{x + 24}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="2.5"/>')
            else:
                self.add(f'<circle cx="{x + 12}" cy="{y - 4}" r="4.5" fill="{PAPER}" stroke="{colour}" stroke-width="2"/>')
            self.text(x + 34, y, words)
            y += 20

    def svg(self, title):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
                f'font-family="system-ui, -apple-system, Segoe UI, DejaVu Sans, sans-serif">\n<title>{html.escape(title)}</title>\n'
                f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{PAPER}"/>\n')
        return head + "\n".join(self.parts) + "\n</svg>\n"


def colour_of(index):
    return COLOURS[index % len(COLOURS)]


def summary(run):
    """"307,200 tokens, 2,560 tokens/s; loss 8.37 to 4.12"."""
    words = []
    if run.seconds > 0:
        words.append(f"{run.tokens:,} tokens, {run.tokens / run.seconds:,.0f} tokens/s")
    if run.train:
        words.append(f"loss {run.train[0][1]:.2f} to {run.train[-1][1]:.2f}")
    return "; ".join(words)


def draw(runs, title, axis):
    picture = Picture(runs)
    # A bold letter is about 0.64 of its size wide.
    picture.text(LEFT, 34, title, size=min(19, int((WIDTH - LEFT - RIGHT) / (0.64 * max(len(title), 1)))), more=' font-weight="600"')
    picture.text(LEFT, 58, summary(runs[0]) if len(runs) == 1 else f"{len(runs)} runs", SOFT)
    picture.axes(axis)
    for i, run in enumerate(runs):
        picture.steps(run, colour_of(i))
    windows = [picture.run(run, colour_of(i), len(runs) - 1 - i) for i, run in enumerate(runs)]
    picture.legend(runs, windows)
    return picture.svg(title)


def label_of(path):
    """out/small/metrics.jsonl -> small"""
    return pathlib.Path(path).resolve().parent.name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="metrics.jsonl of a run; NAME=FILE names the run in the legend")
    parser.add_argument("--output", required=True, metavar="FILE", help="the picture, such as loss.svg")
    parser.add_argument("--title", default="Pretraining loss", metavar="TEXT")
    parser.add_argument("--x", choices=("steps", "tokens"), default="steps", help="what the x axis counts (default: steps)")
    options = parser.parse_args()
    try:
        runs = []
        for word in options.files:
            name, equals, path = word.rpartition("=")
            runs.append(Run(path, name if equals else label_of(path), options.x))
        picture = draw(runs, options.title, options.x)
        partial = pathlib.Path(options.output + ".partial")
        try:
            partial.write_text(picture)
            partial.replace(options.output)
        finally:
            partial.unlink(missing_ok=True)
    except (InputError, OSError) as error:
        sys.exit(f"plot_metrics: {error}")


if __name__ == "__main__":
    main()
