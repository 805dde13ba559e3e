"""Where samples come from: one file per kind of data, behind the contract of `source.py`."""

from mvrc.sampling.arrays import SAMPLING as SAMPLING
from mvrc.sampling.arrays import ArraySource as ArraySource
from mvrc.sampling.draws import Words as Words
from mvrc.sampling.files import File as File
from mvrc.sampling.files import Host as Host
from mvrc.sampling.inside import Groups as Groups
from mvrc.sampling.inside import Inside as Inside
from mvrc.sampling.inside import Pair as Pair
from mvrc.sampling.inside import Pool as Pool
from mvrc.sampling.inside import Simulator as Simulator
from mvrc.sampling.iterators import Batches as Batches
from mvrc.sampling.pairs import PairSource as PairSource
from mvrc.sampling.sizes import Amount as Amount
from mvrc.sampling.sizes import Sizes as Sizes
from mvrc.sampling.source import Batch as Batch
from mvrc.sampling.source import Samples as Samples
from mvrc.sampling.source import Source as Source
from mvrc.sampling.source import key_bits as key_bits
from mvrc.sampling.spreading import Sharded as Sharded
from mvrc.sampling.spreading import lies_on_many as lies_on_many
from mvrc.sampling.spreading import shard as shard
from mvrc.sampling.streams import Stream as Stream
