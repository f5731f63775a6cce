"""Replaces y and dydx of the activations group by values computed to 60 digits (mpmath) at the stored float64 x, rounded once to float64.
PyTorch's own float64 values cancel in the tails (gelu by 1+erf, tanh/sigmoid derivatives from the output, tanhshrink near 0). At kinks PyTorch's choice of derivative is kept.
Usage: exact_activations.py GOLDEN_DIR"""
import json, struct, sys
from mpmath import mp, mpf, exp, log, tanh, erfc, sqrt, pi, expm1, log1p
mp.dps = 60
d = sys.argv[1]
b = open(f'{d}/activations.safetensors', 'rb').read(); n = struct.unpack('<Q', b[:8])[0]; h = json.loads(b[8:8+n]); data = bytearray(b[8+n:])
J = json.load(open(f'{d}/activations.json'))
sig = lambda x: 1/(1+exp(-x)); one = mpf(1)
S, A = mpf('1.0507009873554804934193349852946'), mpf('1.6732632423543772848170429916717')
Phi = lambda x: erfc(-x/sqrt(2))/2; phi = lambda x: exp(-x*x/2)/sqrt(2*pi)
def softplus(x, beta=one, thr=mpf(20)):
    z = beta*x
    return (x, one) if z > thr else (log1p(exp(z))/beta if z < 50 else (z+log1p(exp(-z)))/beta, sig(z))
def f(op, a, x):
    g = {k: (mpf(v) if not isinstance(v, str) else v) for k, v in a.items()}
    if op == 'sigmoid': return sig(x), exp(-abs(x))/(1+exp(-abs(x)))**2
    if op == 'logsigmoid': return (-log1p(exp(-x)) if x > -50 else x-log1p(exp(x))), sig(-x)
    if op == 'tanh': e = exp(-2*abs(x)); return tanh(x), 4*e/(1+e)**2
    if op == 'relu': return (x if x > 0 else mpf(0)), (one if x > 0 else mpf(0))
    if op == 'gelu' and a['approximate'] == 'none': return x*Phi(x), Phi(x)+x*phi(x)
    if op == 'gelu':
        k = sqrt(2/pi); c = mpf('0.044715'); z = k*(x+c*x**3); s = sig(2*z); return x*s, s + x*s*sig(-2*z)*2*k*(1+3*c*x*x)
    if op == 'silu': s = sig(x); return x*s, s*(1+x*sig(-x))
    if op == 'relu6': return min(max(x, mpf(0)), mpf(6)), (one if 0 < x < 6 else mpf(0))
    if op == 'hardsigmoid': return min(max(x/6+mpf(1)/2, mpf(0)), one), (one/6 if -3 < x < 3 else mpf(0))
    if op == 'hardtanh': return min(max(x, g['min_val']), g['max_val']), (one if g['min_val'] < x < g['max_val'] else mpf(0))
    if op == 'hardswish': return (mpf(0) if x <= -3 else x if x >= 3 else x*(x+3)/6), (mpf(0) if x <= -3 else one if x >= 3 else (2*x+3)/6)
    if op == 'selu': return (S*x if x > 0 else S*A*expm1(x)), (S if x > 0 else S*A*exp(x))
    if op == 'mish':
        sp = softplus(x, one, mpf(10)**9)[0]; t = tanh(sp); e = exp(-2*sp); return x*t, t + x*(4*e/(1+e)**2)*sig(x)
    if op == 'softplus': return softplus(x, g['beta'], g['threshold'])
    if op == 'softsign': return x/(1+abs(x)), 1/(1+abs(x))**2
    if op == 'tanhshrink': return x-tanh(x), tanh(x)**2
    if op == 'leaky_relu': s = g['negative_slope']; return (x if x > 0 else s*x), (one if x > 0 else s)
    if op == 'elu': al = g['alpha']; return (x if x > 0 else al*expm1(x)), (one if x > 0 else al*exp(x))
    if op == 'celu': al = g['alpha']; return (x if x > 0 else al*expm1(x/al)), (one if x > 0 else exp(x/al))
    if op == 'hardshrink': l = g['lambd']; return (x if abs(x) > l else mpf(0)), (one if abs(x) > l else mpf(0))
    if op == 'softshrink': l = g['lambd']; return (x-l if x > l else x+l if x < -l else mpf(0)), (one if abs(x) > l else mpf(0))
    raise KeyError(op)
worst = {}
for c in J['cases']:
    get = lambda nm: struct.unpack_from(f"<{(h[nm]['data_offsets'][1]-h[nm]['data_offsets'][0])//8}d", data, h[nm]['data_offsets'][0])
    x, y0, d0 = (get(f"{c['id']}/{k}") for k in ('x', 'y', 'dydx'))
    ys, ds = [], []
    for xi, yo, do in zip(x, y0, d0):
        mp.dps = 60 if 1e-9 < abs(xi) < 1e3 else 700   # |x| up to 1e30: exp of it is beyond doubles either way; near 0, x - tanh(x) cancels all of 60 digits
        if abs(xi) > 1e5: y, dd = yo, do         # saturated: PyTorch's value is exact there
        else: y, dd = f(c['op'], c['args'], mpf(xi)); y, dd = float(y), float(dd)
        if y == 0 and yo == 0: y = yo            # keep the sign of zero
        if dd == 0 and do == 0: dd = do
        ys.append(y); ds.append(dd)
        for k, a_, b_ in (('y', y, yo), ('d', dd, do)):
            e = abs(a_-b_); w = worst.setdefault((c['id'], k), [0, 0, 0]);
            if e > 1e-12*abs(a_): w[2] += 1
            if e > w[0]: w[0], w[1] = e, xi
    for nm, v in (('y', ys), ('dydx', ds)): struct.pack_into(f'<{len(v)}d', data, h[f"{c['id']}/{nm}"]['data_offsets'][0], *v)
open(f'{d}/activations.safetensors', 'wb').write(b[:8+n] + bytes(data))
for k, w in sorted(worst.items()):
    if w[2]: print(k, f'largest change {w[0]:.2e} at x={w[1]:.6g}; {w[2]} values moved by more than 1e-12 relative')
