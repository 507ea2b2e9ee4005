-- What symmetry saves
--
-- Charge is conserved: what flows in must flow out. So does spin, and the number of particles. Give
-- each index of a matrix a charge, and let it lead from a charge to the same one alone: then it is
-- 0 wherever row and column differ. Sort the indices, and it falls into blocks. A leg says which
-- charges there are and how often, and by its arrow (1 or -1) whether they flow in or out.
local blocks, f64 = gradus.blocks, {dtype = "f64"}
gradus.seed(13)
local leg = blocks.leg(1, {{-1, 20}, {0, 60}, {1, 20}})
local x = blocks.randn({leg, leg:reversed()}, f64)
print(x.shape, x.elements .. " numbers in " .. x.count .. " blocks")

-- Those numbers are all there is: one buffer, x.data, an ordinary tensor. A product takes block by
-- block, and never sees the zeros. With more legs the rule is the same: arrow times charge, summed
-- over all legs, is 0. The more legs, the more of the tensor is empty, and the more is saved.
print(blocks.plan("ij,jk->ik", x, x))
local four = blocks.randn({leg, leg, leg:reversed(), leg:reversed()}, f64)
print(string.format("four legs: %.0f %% of the numbers", 100 * four.elements / leg.size ^ 4))
print(blocks.plan("abcd,de->abce", four, x))

-- A sum with 1 would fill the zeros, so would exp. Neither is done behind your back.
local ok, message = pcall(function() return x + 1 end)
print(ok, (message:gsub("^.-%d: ", ""):gsub("; .*", "")))

-- The gradient of a loss that respects the symmetry respects it, too: dense, it is 0 outside of the
-- blocks. So it has the blocks of its tensor, and no step of an optimiser leads out of them.
x:requires_grad_()
local y = gradus.einsum("ij,jk->ik", x, x)
y:inner(y):backward()
local dense = x:to_dense():detach():requires_grad_()
dense:matmul(dense):square():sum():backward()
print("gradient:", x.grad.count, "blocks, dense the same:",
      (x.grad:to_dense() - dense.grad):norm():item() < 1e-9 * dense.grad:norm():item())

-- Lesson 12 met two equal eigenvalues, whose vectors have no derivative. Symmetry is what makes
-- most of them equal: below, 3 is a value of charge 0 and of charge 1. No change that respects the
-- symmetry mixes the two, so by blocks nothing is undefined. Dense, it is an error.
local small = blocks.leg(1, {{0, 2}, {1, 2}})
local h = blocks.zeros({small, small:reversed()}, f64)
h:block(1, 1):copy_(gradus.tensor({{2, 1}, {1, 2}}, f64))
h:block(2, 2):copy_(gradus.tensor({{4, 1}, {1, 4}}, f64))
h:requires_grad_()
local w, v = h:eigh()
print(w)
local weights = gradus.randn(4, 4, f64)
local slope = gradus.grad((v:to_dense() * weights):sum(), h.data)
print("by blocks:", slope.shape, slope:isfinite():all():item())
local same = h:to_dense():detach():requires_grad_()
local _, vectors = same:eigh()
ok, message = pcall(function() return gradus.grad((vectors * weights):sum(), same) end)
print("dense:", ok, (message:gsub("^.-%d: ", ""):gsub(", too.*", "")))

-- Exercise: with charges modulo 2 (symmetry = "Z2") and two sectors of 50, how many of the 100^4
-- numbers of `four` are left? And how many if a charge of its own is added to each side?
--[==[ prints
(100, 100)	4400 numbers in 3 blocks
ij,jk->ik: 1 step, 3 pairs of blocks, 4.64e+05 flops; of dense tensors 2e+06
four legs: 31 % of the numbers
abcd,de->abce: 1 step, 19 pairs of blocks, 2.976e+09 flops; of dense tensors 2e+10
false	add: a number beside a block tensor: add would fill the blocks that must be 0, so the result is dense
gradient:	3	blocks, dense the same:	true
[1, 3, 3, 5]
f64 (4,), grad_fn = cat
by blocks:	(8,)	true
dense:	false	eigh: values 1 and 2 (3 and 3) differ by 0
]==]
