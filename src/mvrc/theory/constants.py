"""The constants of the theory."""

from __future__ import annotations

from dataclasses import dataclass, fields

from mvrc.support import checks


@checks.explain_init
@dataclass(frozen=True)
class Constants:
    """Lipschitz constants and variances of F = f∘g (Assumptions 1, 2, 4 and 5).

    f and ∇f are l_f- and L_f-Lipschitz, every g_ξ and g_ξ' is l_g- and L_g-Lipschitz; E‖g_ξ − g‖²
    ≤ σ_g², E‖g_ξ' − g'‖² ≤ σ_dg², E‖∇f_η − ∇f‖² ≤ σ_df². The σ matter online only.

    Examples:
        >>> constants = mvrc.Constants(l_f=1.0, L_f=1.0, l_g=2.0, L_g=0.5)
        >>> constants.L_F  # l_g²L_f + l_fL_g
        4.5
    """

    l_f: float
    L_f: float
    l_g: float
    L_g: float
    sigma_g: float = 0.0
    sigma_dg: float = 0.0
    sigma_df: float = 0.0

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            check = checks.positive if name in ("l_f", "l_g") else checks.nonnegative
            object.__setattr__(self, name, check(name, getattr(self, name)))

    @property
    def L_F(self) -> float:
        """L_F = l_g² L_f + l_f L_g, a Lipschitz constant of ∇F."""
        return self.l_g * self.l_g * self.L_f + self.l_f * self.L_g

    @property
    def G_0(self) -> float:
        """G₀ = 2(l_g⁴ L_f² + l_f² L_g²), the growth of the estimator's variance."""
        values, jacobians = self.l_g * self.l_g * self.L_f, self.l_f * self.L_g
        return 2 * (values * values + jacobians * jacobians)

    @property
    def sigma_0_squared(self) -> float:
        """σ₀² = 2(l_g² L_f² σ_g² + l_f² σ_dg²), the variance of one sample's gradient online."""
        values, jacobians = self.l_g * self.L_f * self.sigma_g, self.l_f * self.sigma_dg
        return 2 * (values * values + jacobians * jacobians)
