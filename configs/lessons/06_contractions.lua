-- The derivative of a contraction is a contraction
--
-- einsum names each axis by a letter, multiplies where letters meet and sums what the result does
-- not name. A matrix product is "ij,jk->ik": sum over j. randn draws the numbers, and g is a
-- cotangent of y's shape to begin with.
gradus.seed(3)
local a = gradus.randn(2, 3, {dtype = "f64", requires_grad = true})
local b = gradus.randn(3, 4, {dtype = "f64", requires_grad = true})
local y = gradus.einsum("ij,jk->ik", a, b)
local g = gradus.randn(2, 4, {dtype = "f64"})
local da, db = gradus.grad(y, {a, b}, g)

-- y is linear in a, so its derivative by a is what stands beside a: b. The gradient takes the
-- cotangent in the place of the result, and lets a and y change places: "ij,jk->ik" becomes
-- "ik,jk->ij". No formula to remember, only letters to move.
local function compare(u, v)
  return (u - v):abs():max():item() < 1e-14 and "the same" or "different"
end
print("da against ik,jk->ij:", compare(da, gradus.einsum("ik,jk->ij", g, b:detach())))
print("db against ij,ik->jk:", compare(db, gradus.einsum("ij,ik->jk", a:detach(), g)))
print("da against g b^T:    ", compare(da, g:matmul(b:detach().T)))

-- No axis is special: a batch axis is a letter that all three have. A linear layer, a batched
-- product, a trace, or attention's scores: one rule.
local q = gradus.randn(5, 2, 3, {dtype = "f64", requires_grad = true})
local k = gradus.randn(5, 4, 3, {dtype = "f64"})
local scores = gradus.einsum("bqd,bkd->bqk", q, k)
local gs = gradus.randn(5, 2, 4, {dtype = "f64"})
local dq = gradus.grad(scores, q, gs)
print("attention's scores:  ", compare(dq, gradus.einsum("bqk,bkd->bqd", gs, k)))

-- Letters alone tell what the gradients cost: forward has one multiplication for each i, j and k,
-- and each gradient has as many. So a training step of such layers takes three times its forward
-- pass.
local forward = a.shape[1] * a.shape[2] * b.shape[2]
print("multiplications:", forward, "forward", 2 * forward, "backward")

-- Exercise: what are the two gradients of a matrix times a vector, "ij,j->i"? Write their letters
-- down, then compare. One of them sums nothing.
--[==[ prints
da against ik,jk->ij:	the same
db against ij,ik->jk:	the same
da against g b^T:    	the same
attention's scores:  	the same
multiplications:	24	forward	48	backward
]==]
