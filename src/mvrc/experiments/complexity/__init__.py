"""The paper's Table 1 and theorems, measured on problems whose constants are known."""
