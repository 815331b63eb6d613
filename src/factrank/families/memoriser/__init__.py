"""The memoriser family: multi-head attention that memorises vectors (Mahdavi et al. 2024).

What lives here: shapes, the model, its task and measures; examples (`examples`), the closed form with its proof
(`solving`), ranks of vectors and of the model (`ranks`).
"""
