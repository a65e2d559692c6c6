"""The eight boxed observations of pat19 as claims that can be checked: an estimate against a number.

Where the paper gives words and no number, the number is ours and stands in the claim.
"""

from __future__ import annotations

from dataclasses import dataclass

from ioweather.studies.climate.calendar import FLAT
from ioweather.studies.climate.context import HIGH_CORRELATION, WEAK_CORRELATION
from ioweather.studies.climate.parallelism import LIMITED
from ioweather.studies.climate.servers import MODEST
from ioweather.studies.climate.targets import BALANCED


@dataclass(frozen=True)
class Claim:
    """`text` says what is claimed; the estimate `name` of `exhibit` must lie above (or below) the number.

    `[w1]`, `[w5]`, `[w25]` in a name stand for the words of the three windows. An exact count needs no interval.
    """

    text: str
    exhibit: str
    name: str
    above: float | None = None
    below: float | None = None
    exact: bool = False


@dataclass(frozen=True)
class Observation:
    section: str
    text: str
    claims: tuple[Claim, ...]


_MOST = 0.5
OBSERVATIONS = (
    Observation(
        "3",
        "More is read than written; both are bursty, writes more so.",
        (
            Claim("more is read than written", "pat19.fig3", "read_over_written", above=1.0),
            Claim("reads are bursty (variation above 100%)", "pat19.fig4", "variation_read", above=1.0),
            Claim("writes are bursty (variation above 100%)", "pat19.fig4", "variation_write", above=1.0),
            Claim("writes vary more than reads", "pat19.fig4", "variation_write_minus_read", above=0.0),
        ),
    ),
    Observation(
        "4",
        "Average activity has no daily or weekly pattern, but writes vary more in the evening and on Sundays.",
        (
            Claim(
                f"hourly means of reads differ by less than {FLAT:.0%}, the busiest hour aside",
                "pat19.fig5",
                "hour_spread_read",
                below=FLAT,
            ),
            Claim(
                f"hourly means of writes differ by less than {FLAT:.0%}, the busiest hour aside",
                "pat19.fig5",
                "hour_spread_write",
                below=FLAT,
            ),
            Claim(f"daily means of reads differ by less than {FLAT:.0%}", "pat19.fig6", "day_spread_read", below=FLAT),
            Claim(
                f"daily means of writes differ by less than {FLAT:.0%}", "pat19.fig6", "day_spread_write", below=FLAT
            ),
            Claim("writes vary more in the evening", "pat19.fig5", "evening_variation_difference_write", above=0.0),
            Claim("writes vary more on Sundays", "pat19.fig6", "sunday_variation_difference_write", above=0.0),
        ),
    ),
    Observation(
        "4",
        "The system enters high phases more often than low ones, and stays in low ones for longer.",
        (
            Claim("high read phases begin more often", "pat19.fig8", "interarrival_over_high_read", above=1.0),
            Claim("high write phases begin more often", "pat19.fig8", "interarrival_over_high_write", above=1.0),
            Claim("low read phases last longer", "pat19.fig8", "length_over_high_read", above=1.0),
            Claim("low write phases last longer", "pat19.fig8", "length_over_high_write", above=1.0),
        ),
    ),
    Observation(
        "5",
        "A minute of the whole system does not foretell the next, five minutes do; reads and writes do not "
        "foretell each other.",
        (
            Claim("reads of [w1] tell little about the next", "pat19.fig9", "auto_read[w1]", below=HIGH_CORRELATION),
            Claim("writes of [w1] tell little about the next", "pat19.fig9", "auto_write[w1]", below=HIGH_CORRELATION),
            Claim("reads of [w5] tell about the next", "pat19.fig9", "auto_read[w5]", above=HIGH_CORRELATION),
            Claim("writes of [w5] tell about the next", "pat19.fig9", "auto_write[w5]", above=HIGH_CORRELATION),
            Claim("reads and writes are weakly correlated ([w1])", "pat19.fig9", "cross[w1]", below=WEAK_CORRELATION),
            Claim("reads and writes are weakly correlated ([w5])", "pat19.fig9", "cross[w5]", below=WEAK_CORRELATION),
        ),
    ),
    Observation(
        "6",
        "OSTs are unbalanced in reads and in writes, over long times.",
        (
            Claim("reads are unbalanced by more than 10%", "pat19.fig10", "max_over_min_read", above=BALANCED),
            Claim("writes are unbalanced by more than 10%", "pat19.fig10", "max_over_min_write", above=BALANCED),
            Claim(
                "the OSTs read much are not those written much",
                "pat19.fig10",
                "rank_correlation",
                below=HIGH_CORRELATION,
            ),
            Claim("the order by reads lasts", "pat19.fig10", "persistence_read", above=0.0),
        ),
    ),
    Observation(
        "6",
        f"Few OSTs work together: fewer than {LIMITED} at a time, in high phases too, where writes have more.",
        (
            Claim(
                f"fewer than {LIMITED} OSTs in more than 90% of cases",
                "pat19.fig11",
                f"below_ratio[{LIMITED}]",
                above=0.9,
            ),
            Claim(
                f"mean degree of reads in high phases below {LIMITED}",
                "pat19.sensitivity",
                "mean_high_phases_read",
                below=LIMITED,
            ),
            Claim(
                f"mean degree of writes in high phases below {LIMITED}",
                "pat19.sensitivity",
                "mean_high_phases_write",
                below=LIMITED,
            ),
            Claim(
                "writes are more parallel in high phases",
                "pat19.sensitivity",
                "mean_high_phases_write_minus_read",
                above=0.0,
            ),
        ),
    ),
    Observation(
        "6",
        "At a single OST reads of a minute foretell the next ones; writes do not.",
        (
            Claim("reads of [w1] tell about the next on most OSTs", "pat19.fig12", "lag1_high_ratio_read", above=_MOST),
            Claim("writes of [w1] do not on most OSTs", "pat19.fig12", "lag1_high_ratio_write", below=_MOST),
            Claim(
                "reads and writes are not correlated on most OSTs", "pat19.fig12", "lag0_high_ratio_cross", below=_MOST
            ),
        ),
    ),
    Observation(
        "7",
        "Metadata activity is autocorrelated and bursty; the processors of the OSSes are mostly idle.",
        (
            Claim("opens of [w5] tell about the next", "pat19.fig14", "auto_open[w5]", above=HIGH_CORRELATION),
            Claim("closes of [w5] tell about the next", "pat19.fig14", "auto_close[w5]", above=HIGH_CORRELATION),
            Claim("opens are bursty (variation above 100%)", "pat19.fig13", "variation_open", above=1.0),
            Claim("closes are bursty (variation above 100%)", "pat19.fig13", "variation_close", above=1.0),
            Claim(
                f"more than 60% of OSSes never reach {MODEST:.0%}",
                "pat19.fig15",
                "max_load_servers_ratio",
                above=0.6,
                exact=True,
            ),
        ),
    ),
)
