"""Losses that are functions of an expectation, as problems, each with its exact reference."""

from mvrc.losses.auc import auc_margin as auc_margin
from mvrc.losses.auc import pairwise_square as pairwise_square
from mvrc.losses.contrastive import contrastive as contrastive
from mvrc.losses.contrastive import contrastive_value as contrastive_value
from mvrc.losses.maml import maml as maml
from mvrc.losses.maml import maml_value as maml_value
from mvrc.losses.ranking import average_precision as average_precision
from mvrc.losses.ranking import average_precision_value as average_precision_value
from mvrc.losses.ranking import partial_auc as partial_auc
from mvrc.losses.ranking import partial_auc_value as partial_auc_value
from mvrc.losses.robust import chi2_robust as chi2_robust
from mvrc.losses.robust import chi2_value as chi2_value
from mvrc.losses.robust import tilted as tilted
from mvrc.losses.robust import tilted_value as tilted_value
