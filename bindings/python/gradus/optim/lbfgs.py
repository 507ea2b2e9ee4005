"""LBFGS: steps along a direction that the last gradients say, some of them in one step()."""
import math

from .. import _gradus
from .._modes import enable_grad, no_grad
from .optimizer import Optimizer


class LBFGS(Optimizer):
    """The quasi-Newton method of limited memory (Nocedal & Wright, Numerical Optimization, 2006, algorithms
    7.4 and 7.5). step(closure) makes up to max_iter steps, with up to max_eval (5/4 max_iter) calls of
    closure(), which clears the gradients, computes the loss with its gradients, and gives it. A step is lr
    times the direction, or with line_search_fn="strong_wolfe" what the search finds. One group only."""

    _real = True

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7,
                 tolerance_change=1e-9, history_size=100, line_search_fn=None, *, maximize=False):
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn, "maximize": maximize})

    def add_param_group(self, param_group):
        if self.param_groups:
            raise _gradus.ValueError("LBFGS: takes one group of parameters, got another")
        super().add_param_group(param_group)

    def _check(self, group):
        super()._check(group)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise _gradus.ValueError(f"LBFGS: line_search_fn is {group['line_search_fn']!r}, expected None or "
                                     "\"strong_wolfe\"")
        for name in ("max_iter", "history_size"):
            if group[name] < 1:
                raise _gradus.ValueError(f"LBFGS: {name} is {group[name]}, expected 1 or more")

    def step(self, closure):
        """Steps until max_iter, max_eval or a tolerance is reached; gives the loss before them."""
        with no_grad():
            return self._steps(closure, **{k: v for k, v in self.param_groups[0].items() if k in self.defaults})

    def _steps(self, closure, lr, max_iter, max_eval, tolerance_grad, tolerance_change, history_size,
               line_search_fn, maximize):
        params = self.param_groups[0]["params"]
        state = self.state.setdefault(params[0], {"func_evals": 0, "n_iter": 0})
        first, loss, g = self._evaluate(closure)
        state["func_evals"] += 1
        calls, lr = 1, float(lr)
        if g.abs().max() <= tolerance_grad:
            return first
        for k in range(1, max_iter + 1):
            state["n_iter"] += 1
            d = _direction(state, g, history_size)
            before = loss
            t = lr * min(1.0, 1.0 / float(g.abs().sum())) if state["n_iter"] == 1 else lr
            slope = float(g.dot(d))
            state.update(d=d, t=t, prev_flat_grad=g, prev_loss=loss)
            if slope > -tolerance_change:
                break
            used = 0
            if line_search_fn:
                start = [p.clone() for p in params]

                def along(t):
                    self._move(t, d)
                    _, f, g = self._evaluate(closure)
                    for p, x in zip(params, start):
                        p.copy_(x)
                    return f, g, float(g.dot(d))
                t, loss, g, used = _strong_wolfe(along, t, loss, g, slope, float(d.abs().max()),
                                                 tolerance_change, max_eval - calls)
                state["t"] = t
            self._move(t, d)
            if not line_search_fn and k < max_iter:
                _, loss, g = self._evaluate(closure)
                used = 1
            calls += used
            state["func_evals"] += used
            if (calls >= max_eval or used and g.abs().max() <= tolerance_grad
                    or (d * t).abs().max() <= tolerance_change or abs(loss - before) < tolerance_change):
                break
        return first

    def _evaluate(self, closure):
        """(what closure() gives, that as a number to make small, its gradient as one vector)."""
        with enable_grad():
            loss = closure()
        if loss is None:
            raise _gradus.ValueError("LBFGS: closure() gave None, expected the loss")
        group = self.param_groups[0]
        g = _gradus.cat([(_gradus.zeros_like(p) if p.grad is None else p.grad.detach()).reshape(-1)
                         for p in group["params"]], 0)
        return (loss, -float(loss), -g) if group["maximize"] else (loss, float(loss), g)

    def _move(self, t, d):
        at = 0
        for p in self.param_groups[0]["params"]:
            p.add_(d[at:at + p.numel()].reshape(p.shape) * t)
            at += p.numel()

    def _loaded(self, p, name, value):
        """Vectors of all parameters, lists of them, and numbers."""
        if isinstance(value, (list, tuple)):
            return [self._loaded(p, name, v) for v in value]
        if not hasattr(value, "shape"):
            return value
        return _gradus.zeros(tuple(value.shape), dtype=p.dtype, device=p.device).copy_(value)


def _direction(state, g, history):
    """-H g, with H the inverse Hessian that differences of gradients y and steps s say."""
    if state["n_iter"] == 1:
        state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
        return -g
    kept = [state[name] for name in ("old_dirs", "old_stps", "ro")]
    y, s = g - state["prev_flat_grad"], state["d"] * state["t"]
    ys = y.dot(s)
    if ys > 1e-10:
        for values, new in zip(kept, (y, s, 1.0 / ys)):
            if len(values) == history:
                del values[0]
            values.append(new)
        state["H_diag"] = ys / y.dot(y)
    q, parts = -g, []
    for y, s, ro in reversed(list(zip(*kept))):
        parts.append(s.dot(q) * ro)
        q = q - parts[-1] * y
    d = q * state["H_diag"]
    for y, s, ro in zip(*kept):
        d = d + (parts.pop() - y.dot(d) * ro) * s
    return d


# ---- the line search. A point is (t, loss, gradient, slope along the direction).

def _strong_wolfe(along, t, f, g, slope, size, tolerance, most, c1=1e-4, c2=0.9):
    """(t, loss, gradient, calls of along) where the loss is lower by c1 of the slope and the slope smaller by
    c2: algorithms 3.5 and 3.6 of the book, with cubic interpolation and up to `most` points."""
    bracket, calls, done = None, 1, False
    before, now = (0.0, f, g, slope), (t, *along(t))
    while bracket is None and calls <= most:
        t, f_now, _, slope_now = now
        if f_now > f + c1 * t * slope or calls > 2 and f_now >= before[1]:
            bracket = [before, now]
        elif abs(slope_now) <= -c2 * slope:
            bracket, done = [now], True
        elif slope_now >= 0:
            bracket = [before, now]
        else:
            t = _cubic(before, now, t + 0.01 * (t - before[0]), t * 10)
            before, now = now, (t, *along(t))
            calls += 1
    bracket = bracket or [(0.0, f, g, slope), now]
    low, high = (0, 1) if bracket[0][1] <= bracket[-1][1] else (1, 0)
    stuck = False
    while not done and calls <= most:
        left, right = sorted(point[0] for point in bracket)
        if (right - left) * size < tolerance:
            break
        t, edge = _cubic(*bracket, left, right), 0.1 * (right - left)
        close = min(right - t, t - left) < edge
        if close and (stuck or t >= right or t <= left):  # the second time: a tenth away from the end
            t, close = right - edge if abs(t - right) < abs(t - left) else left + edge, False
        stuck = close
        now = (t, *along(t))
        calls += 1
        if now[1] > f + c1 * t * slope or now[1] >= bracket[low][1]:
            bracket[high] = now
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
            continue
        if abs(now[3]) <= -c2 * slope:
            done = True
        elif now[3] * (bracket[high][0] - bracket[low][0]) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = now
    t, f, g, _ = bracket[low]
    return t, f, g, calls


def _cubic(a, b, low, high):
    """Where the cubic through two points with their slopes is least, within [low, high]."""
    (a, f_a, _, g_a), (b, f_b, _, g_b) = sorted((a, b), key=lambda point: point[0])
    middle = (low + high) / 2.0
    if a == b:
        return middle
    d1 = g_a + g_b - 3 * (f_a - f_b) / (a - b)
    square = d1 * d1 - g_a * g_b
    if not square >= 0:
        return middle
    d2 = math.sqrt(square)
    below = g_b - g_a + 2 * d2
    t = b - (b - a) * ((g_b + d2 - d1) / below) if below else middle
    return min(max(t, low), high)
