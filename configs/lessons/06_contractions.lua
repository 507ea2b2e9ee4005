-- The derivative of a contraction is a contraction
--
-- einsum names each axis by a letter, multiplies where letters meet and sums what the result does
-- not name. A matrix product is "ij,jk->ik": sum over j.
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

-- A letter that one operand alone has was summed, so its gradient is spread: the last lesson but
-- two again. A linear layer, a batched product, attention's scores, a trace: one rule.
local q = gradus.randn(5, 2, 3, {dtype = "f64", requires_grad = true})
local k = gradus.randn(5, 4, 3, {dtype = "f64"})
local scores = gradus.einsum("bqd,bkd->bqk", q, k)
local gs = gradus.randn(5, 2, 4, {dtype = "f64"})
local dq = gradus.grad(scores, q, gs)
print("attention's scores:  ", compare(dq, gradus.einsum("bqk,bkd->bqd", gs, k)))

-- Shapes alone tell what the gradient costs: forward 2 * 3 * 4 products, and each gradient as many.
-- So a training step of a network of products takes three times its forward pass.
print("forward and backward:", 2 * 3 * 4, 2 * (2 * 3 * 4))
--[==[ prints
da against ik,jk->ij:	the same
db against ij,ik->jk:	the same
da against g b^T:    	the same
attention's scores:  	the same
forward and backward:	24	48
]==]
