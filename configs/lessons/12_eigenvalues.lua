-- The derivative of an eigenvalue
--
-- A symmetric matrix A has directions v that it only stretches: A v = w v, with |v| = 1. Then
-- w = v^T A v. Move A by a little dA: v moves, too, but only across itself, since its length stays
-- 1, and A hands that back across v. So what is left is dw = v^T dA v: the gradient of an eigenvalue
-- is the matrix v v^T.
local f64 = {dtype = "f64"}
local a = gradus.tensor({{2, 1}, {1, 4}}, f64):requires_grad_()
local w, v = a:eigh()
print("values ", w[1]:item(), w[2]:item())
w[2]:backward({retain_graph = true})
local largest = v[{{}, 2}]
print("gradient is v v^T:", (a.grad - largest:outer(largest)):abs():amax():item() < 1e-15)

-- A vector has a derivative as well. It turns towards every other vector u, by (u^T dA v) over the
-- gap between the two values. The nearer they are, the faster it turns: a matrix that is nearly round
-- hardly knows which way its axes point. (eigh reads A as symmetric, so a[1, 2] moves half of both
-- entries.)
print("gap       slope of v by a[1, 2]")
for _, gap in ipairs{1, 0.1, 0.01, 0.001} do
  local near = gradus.tensor({{1, 0}, {0, 1 + gap}}, f64):requires_grad_()
  local _, vectors = near:eigh()
  local g = gradus.grad(vectors[1][2], near)
  print(string.format("%-8g  %10.3f", gap, g[1][2]:item()))
end

-- Without a gap there is no derivative: any two directions of a round matrix are as good. Many
-- programs say NaN here, or a large wrong number. gradus says what is wrong, and of which values.
local round = gradus.eye(2, 2, f64):requires_grad_()
local values, vectors = round:eigh()
local ok, message = pcall(function() vectors[1][2]:backward() end)
print(ok, (message:gsub("^.-%d: ", "")))

-- The values alone need no gap: their sum is the trace, whose gradient is the identity.
print(gradus.grad(round:eigvalsh():sum(), round))

-- What a quantum system costs at rest is the smallest eigenvalue of its energy matrix H. Below, two
-- spins couple with strength j in a field b. The slope of the ground energy by b is their mean spin
-- (Feynman and Hellmann): no derivative of the state was needed, by the first paragraph.
local zz = gradus.diag(gradus.tensor({1, -1, -1, 1}, f64))
local xs = gradus.tensor({{0, 1, 1, 0}, {1, 0, 0, 1}, {1, 0, 0, 1}, {0, 1, 1, 0}}, f64)
local b = gradus.tensor(0.5, f64):requires_grad_()
local energy = (-zz - b * xs):eigvalsh()[1]
print(string.format("energy %.6f, mean spin along the field %.6f", energy:item(),
                    -gradus.grad(energy, b):item() / 2))

-- Exercise: the gradient of the largest singular value of a matrix m is u v^T. Check it with
-- m:svd(). What is the gradient of the sum of all of them, m:matrix_norm("nuc")?
--[==[ prints
values 	1.5857864376269	4.4142135623731
gradient is v v^T:	true
gap       slope of v by a[1, 2]
1              0.500
0.1            5.000
0.01          50.000
0.001        500.000
false	eigh: values 0 and 1 (1 and 1) differ by 0, too little for the derivative of their vectors; use values alone, or degenerate=safe, which is approximate
[[1, 0],
 [0, 1]]
f64 (2, 2)
energy -1.414214, mean spin along the field 0.707107
]==]
