-- The order matters
--
-- A product of three matrices is the same however it is bracketed, but its work is not. (a b) c
-- first makes a matrix of 600 by 600, and a thin c comes too late; a (b c) stays thin. A plan says
-- what an order costs before anything is computed: a multiplication and an addition are two flops.
gradus.seed(3)
local a, b, c = gradus.randn(600, 600), gradus.randn(600, 600), gradus.randn(600, 3)
local bad = gradus.einsum_plan("ij,jk,kl->il", a, b, c, {path = "left"})
local good = gradus.einsum_plan("ij,jk,kl->il", a, b, c)
print(bad)
print(good)
local function seconds(f)
  local begin = os.clock()
  return f(a, b, c) and os.clock() - begin
end
print("flops:", bad.flops / good.flops, "times as many; slower:", seconds(bad) > seconds(good))

-- How would one find the order? Take what makes the network smallest next, and never look back: a
-- greedy order. Here it joins the two big squares, since that leaves one matrix of two. The best
-- order walks in from the thin end, where each step is a matrix times a thin one. Up to some forty
-- tensors the best can be found and proven, so that is what einsum does for a few of them.
for _, path in ipairs{"greedy", "optimal"} do
  local p, q, r, s = {100, 100}, {100, 100}, {100, 50}, {50, 2}
  print(path, gradus.einsum_plan("ij,jk,kl,lm->im", p, q, r, s, {path = path}))
end

-- A letter may stand in more than two terms. Then the first pair that meets cannot sum it yet: the
-- third still needs it. Below, x is shared by three matrices, as where a tensor is written as a sum
-- of 40 products. The first step multiplies and sums nothing, the last one sums.
local factors = gradus.einsum_plan("ix,jx,kx->ijk", {30, 40}, {30, 40}, {30, 40})
print(factors)

-- Where even the best order makes something too large, time buys memory. The sum over one letter
-- may be done last, outside: for each i a smaller network, and the results add up. That is called
-- slicing. The largest intermediate is a twelfth then. Here it costs nothing, as each step holds an
-- i; a step that holds none would be done again each time.
local n = 12
local whole = gradus.einsum_plan("ijk,klm,mxi,jlx->", {n, n, n}, {n, n, n}, {n, n, n}, {n, n, n})
local slice = gradus.einsum_plan("jk,klm,mx,jlx->", {n, n}, {n, n, n}, {n, n}, {n, n, n})
print("whole:  largest", whole.largest, "flops", whole.flops)
print("slices: largest", slice.largest, "flops", n * slice.flops)
local x, sum = gradus.rand(4, n, n, n), 0
local p, q, r, s = x[1], x[2], x[3], x[4]
for i = 1, n do sum = sum + slice(p[i], q, r[{{}, {}, i}], s):item() end
print("the same:", math.abs(sum / whole(p, q, r, s):item() - 1) < 1e-4)

-- Backward goes the same way back. Each step has two gradients, contractions of its own size, so a
-- good order is good for derivatives too, which cost about twice the work.
a:requires_grad_()
good(a, b, c):sum():backward()
print("gradient:", (a.grad - b:matmul(c):sum(2)):abs():max():item() < 1e-2)

-- Exercise: a chain of matrices of 2 by 90, 90 by 90 and 90 by 2, closed to a ring: its trace,
-- "ij,jk,ki->". Which pair goes first? Ask a plan for the flops of all three (path = {{1, 2},
-- {1, 2}} and so on; positions count what is left).
--[==[ prints
ij,jk,kl->il: 2 steps, 4.342e+08 flops, largest intermediate 3.6e+05 elements, memory about 4.334e+06 bytes
  1  ij,jk->ik  4.32e+08 flops
  2  kl,ik->il  2.16e+06 flops
ij,jk,kl->il: 2 steps, 4.32e+06 flops, largest intermediate 1800 elements, memory about 2.902e+06 bytes
  1  jk,kl->jl  2.16e+06 flops
  2  ij,jl->il  2.16e+06 flops
flops:	100.5	times as many; slower:	true
greedy	ij,jk,kl,lm->im: 3 steps, 3.02e+06 flops, largest intermediate 1e+04 elements, memory about 1.604e+05 bytes
  1  ij,jk->ik  2e+06 flops
  2  kl,ik->li  1e+06 flops
  3  lm,li->im  2e+04 flops
optimal	ij,jk,kl,lm->im: 3 steps, 1e+05 flops, largest intermediate 200 elements, memory about 1.02e+05 bytes
  1  kl,lm->km  2e+04 flops
  2  jk,km->jm  4e+04 flops
  3  ij,jm->im  4e+04 flops
ix,jx,kx->ijk: 2 steps, 2.196e+06 flops, largest intermediate 3.6e+04 elements, memory about 2.664e+05 bytes
  1  ix,kx->xik  3.6e+04 flops
  2  jx,xik->ijk  2.16e+06 flops
whole:  largest	20736.0	flops	998784.0
slices: largest	1728.0	flops	998784.0
the same:	true
gradient:	true
]==]
