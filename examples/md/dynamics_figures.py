"""Pictures of what a potential does in molecular dynamics."""

from collections.abc import Mapping, Sequence

import numpy as np
from checks import MARGIN, Conserved, Stability, order
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from palette import BLACK, BLUE, GREY, ORANGE, RED, WIDTH

LOOKS = ((BLUE, "-"), (ORANGE, "-"), (RED, "-"), (BLACK, "-"))


def conservation(runs: Sequence[Conserved]) -> Figure:
    """Total energies of a run against time, and their fluctuation against the timestep."""
    figure = Figure(figsize=(WIDTH, 7.5), layout="constrained")
    top, bottom = figure.subplots(2, 1)
    for k, one in reversed(list(enumerate(runs))):
        colour, _ = LOOKS[k % len(LOOKS)]
        top.plot(one.times / 1e3, 1e3 * one.total[0], color=colour, lw=0.6)
        top.plot([], [], color=colour, lw=3, label=f"{one.timestep:g} fs")
    handles, names = top.get_legend_handles_labels()
    top.legend(handles[::-1], names[::-1], ncols=len(runs), loc="lower center",
               bbox_to_anchor=(0.5, 1.0), title="timestep")  # fmt: skip
    top.set(xlabel="time (ps)", ylabel="total energy, less its mean (meV)")
    timesteps = np.array([one.timestep for one in runs])
    fluctuations = np.array([one.fluctuation for one in runs])
    scale = np.exp(np.mean(np.log(fluctuations / timesteps**2)))
    line = np.geomspace(timesteps[0] / 1.3, timesteps[-1] * 1.3, 20)
    bottom.plot(line, scale * line**2, color=GREY, ls="--", label="∝ timestep²")
    for k, (dt, size) in enumerate(zip(timesteps, fluctuations, strict=True)):
        bottom.plot(dt, size, "o", color=LOOKS[k % len(LOOKS)][0], ms=10)
    bottom.set(xscale="log", yscale="log", xlabel="timestep (fs)")
    bottom.set(ylabel="fluctuation (meV/atom)", title=f"fitted power {order(list(runs)):.2f}")
    bottom.legend(loc="upper left")
    bottom.xaxis.set_major_locator(FixedLocator(timesteps.tolist()))
    bottom.xaxis.set_minor_locator(NullLocator())
    for axis in (bottom.xaxis, bottom.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    return figure


def distributions(found: Mapping[float, Mapping[str, tuple[np.ndarray, np.ndarray]]]) -> Figure:
    """Of bond lengths and angles, a row for every temperature.

    Args:
        found: temperature in K -> quantity with its unit -> (of the run, of the reference).
    """
    columns = len(next(iter(found.values())))
    figure = Figure(figsize=(WIDTH, 1.2 + 2.8 * len(found)), layout="constrained")
    axes = figure.subplots(len(found), columns, sharex="col", squeeze=False)
    for k, (temperature, quantities) in enumerate(found.items()):
        for panel, (name, (ours, theirs)) in zip(axes[k], quantities.items(), strict=True):
            every = [pair[name] for pair in found.values()]
            low = min(min(a.min(), b.min()) for a, b in every)
            high = max(max(a.max(), b.max()) for a, b in every)
            bins = np.linspace(low, high, 41)
            panel.hist(theirs, bins, density=True, color="#bcd9ec", label="reference frames")
            panel.hist(ours, bins, density=True, histtype="step", color=BLACK, lw=1.8,
                       label="dynamics of the potential")  # fmt: skip
            panel.set(yticks=[], title=f"{temperature:.0f} K")
            panel.spines["left"].set_visible(False)
            if k == len(found) - 1:
                panel.set_xlabel(name)
    axes[0, 0].set_ylabel("density")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def vibrations(
    wavenumbers: np.ndarray, density: np.ndarray, harmonic: np.ndarray, temperature: float
) -> Figure:
    """The density of states, with the reference's harmonic frequencies as lines.

    Args:
        wavenumbers, density: (W,) in 1/cm, and of any unit.
        harmonic: (M,) in 1/cm.
    """
    figure = Figure(figsize=(WIDTH, 4.8), layout="constrained")
    axes = figure.subplots()
    last = 1.15 * harmonic.max()
    shown = wavenumbers <= last
    axes.fill_between(wavenumbers[shown], density[shown] / density[shown].max(), color="#bcd9ec")
    axes.plot(wavenumbers[shown], density[shown] / density[shown].max(), color=BLUE, lw=1.2,
              label=f"dynamics of the potential, {temperature:.0f} K")  # fmt: skip
    for k, line in enumerate(harmonic):
        axes.axvline(line, color=RED, ls="--", lw=1.2, zorder=0,
                     label="harmonic frequencies of the reference" if k == 0 else "_")  # fmt: skip
    axes.set(xlabel="wavenumber (1/cm)", ylabel="density of states", xlim=(0, last))
    axes.set(ylim=(0, 1.08), yticks=[])
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def stability(found: Stability) -> Figure:
    """How far the worst bond of every run is beyond the edge of the trained range, against time."""
    figure = Figure(figsize=(WIDTH, 4.8), layout="constrained")
    axes = figure.subplots()
    # A broken bond is off the scale; what matters is that it is, and when.
    shown = np.minimum(found.worst, 3 * MARGIN)
    looks = {
        False: (BLUE, "-", "worst bond of a run so far"),
        True: (RED, "--", "worst bond of a broken run"),
    }
    for worst in shown:
        colour, style, _ = looks[bool(worst[-1] > MARGIN)]
        axes.plot(found.times / 1e3, worst, color=colour, ls=style, lw=1.2, alpha=0.8)
    for broken in sorted(set((shown[:, -1] > MARGIN).tolist())):
        colour, style, words = looks[broken]
        axes.plot([], [], color=colour, ls=style, label=words)
    axes.axhline(0, color=GREY, lw=1.5, label="edge of the trained range")
    axes.axhline(MARGIN, color=BLACK, lw=1.8, ls=":", label=f"broken: {MARGIN:g} Å beyond")
    reach = max(shown.max(), MARGIN) - min(shown.min(), 0)
    axes.set_ylim(min(shown.min(), 0) - 0.05 * reach, max(shown.max(), MARGIN) + 0.05 * reach)
    axes.set(xlabel="time (ps)", ylabel="beyond the edge (Å)", xlim=(0, found.times[-1] / 1e3))
    figure.legend(loc="outside lower center", ncols=2)
    return figure
