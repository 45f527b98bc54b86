"""The PyTorch function of a JAX function, by itself."""

import jax
import keras
import numpy as np
import pytest

import qml
from qml.config import resolve
from qml.errors import EngineError
from qml.execution import recorded
from qml.layers import QuantumLayer
from qml.layers.batch import BatchedKernel

if keras.backend.backend() != "torch":
    pytest.skip("the bridge serves Keras' PyTorch backend", allow_module_level=True)

import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from qml.layers.torch_bridge import HostOperation

# PyTorch's own, when its forward mode is first used.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
to_numpy = keras.ops.convert_to_numpy


@qml.qkernel(qubits=2)
def circuit(qc, x, w):
    qc.rx(x[0], 0)
    qc.rx(w[0], 0)
    qc.rx(x[1] * w[1], 1)
    return [qml.Z(0), qml.Z(0) @ qml.Z(1)]


def formula(x, w):
    """What the circuit gives, in PyTorch: (..., 2), (2,) -> (..., 2)."""
    first = torch.cos(x[..., 0] + w[0])
    return torch.stack([first, first * torch.cos(x[..., 1] * w[1])], dim=-1)


def bridged(kernel=circuit, shapes=None, backend="reference"):
    """The kernel as a PyTorch function of a batch and its weights."""
    function = BatchedKernel.of(kernel, shapes or {"w": (2,)}).on(resolve(backend))
    operation = HostOperation(lambda: function, (2,))
    return lambda x, w, key=None: operation(key, [x, w])[0]


batched = bridged()


def single(x, w):
    """One sample, (2,) -> (2,)."""
    return batched(x[None], w)[0]


X = torch.tensor([[0.3, -0.7], [1.1, 0.2], [-0.4, 0.9]], dtype=torch.float64)
W = torch.tensor([0.4, 1.3], dtype=torch.float64)


def leaves():
    return X.clone().requires_grad_(), W.clone().requires_grad_()


@pytest.fixture(params=[True, False], ids=["x64", "without x64"])
def either_precision_of_jax(request):
    with jax.enable_x64(request.param):
        yield


def agree(found, expected):
    flat, structure = torch.utils._pytree.tree_flatten(found)
    flat_expected, structure_expected = torch.utils._pytree.tree_flatten(expected)
    assert structure == structure_expected and flat
    for a, b in zip(flat, flat_expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(to_numpy(a), to_numpy(b), atol=1e-12)


# Derivatives.


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_backward_of_backward_is_exact_to_any_order(order, either_precision_of_jax):
    def derivative(function):
        x, w = leaves()
        value = function(x, w)
        for n in range(order):
            # To weights and to inputs in turn, and different at every element.
            into = w if n % 2 else x
            scale = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype)
            (value,) = torch.autograd.grad((value.flatten() * scale).sum(), into, create_graph=True)
        return value

    agree(derivative(batched), derivative(formula))


def test_finite_differences_confirm_both_orders_backward_and_forward(either_precision_of_jax):
    assert gradcheck(batched, leaves(), check_forward_ad=True)
    assert gradgradcheck(batched, leaves(), check_fwd_over_rev=True, check_rev_over_rev=True)


def test_a_batch_of_gradients_by_the_older_vmap_is_refused():
    """`torch.func.vmap` is the one that knows of functions like this."""
    x, w = leaves()
    with pytest.raises(RuntimeError, match="Batching rule not implemented"):
        torch.autograd.grad(batched(x, w), x, torch.ones(4, 3, 2).double(), is_grads_batched=True)


def summed(function):
    return lambda x, w: function(x, w).sum()


V = torch.tensor([0.7, -1.2], dtype=torch.float64)
TRANSFORMS = {
    "vmap": lambda f: vmap(f, (0, None))(X, W),
    "vmap over weights": lambda f: vmap(f, (None, 0))(X[0], X),
    "vmap over both": lambda f: vmap(f)(X, X),
    "vmap of a last axis": lambda f: vmap(f, (1, None), out_dims=1)(X.T, W),
    "vmap of vmap": lambda f: vmap(vmap(f, (None, 0)), (0, None))(X, X),
    "vmap of vmap of vmap": lambda f: vmap(vmap(vmap(f, (0, None)), (None, 0)), (0, None))(
        torch.stack([X, 2 * X]), X
    ),
    "grad": lambda f: grad(summed(f), (0, 1))(X[0], W),
    "grad of grad": lambda f: grad(summed(grad(summed(f))), 1)(X[0], W),
    "vmap of grad": lambda f: vmap(grad(summed(f), 1), (0, None))(X, W),
    "jacrev": lambda f: jacrev(f, (0, 1))(X[0], W),
    "jacfwd": lambda f: jacfwd(f, (0, 1))(X[0], W),
    "jacrev of a sum over vmap": lambda f: jacrev(lambda w: vmap(f, (0, None))(X, w).sum(0))(W),
    "hessian": lambda f: hessian(f, (0, 1))(X[0], W),
    "jacrev of jacrev": lambda f: jacrev(jacrev(f), 1)(X[0], W),
    "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(f), 1)(X[0], W),
    "jacrev of jacfwd": lambda f: jacrev(jacfwd(f, 1))(X[0], W),
    "vmap of hessian": lambda f: vmap(hessian(f), (0, None))(X, W),
    "vmap of vmap of hessian": lambda f: vmap(vmap(hessian(f, 1), (None, 0)), (0, None))(X, X),
    "third derivatives": lambda f: jacfwd(hessian(f), 1)(X[0], W),
    "jvp": lambda f: jvp(f, (X[0], W), (V, -V)),
    "jvp in one argument": lambda f: jvp(lambda w: f(X[0], w), (W,), (V,)),
    "vjp": lambda f: vjp(f, X[0], W)[1](V),
    "jvp of grad": lambda f: jvp(lambda x: grad(summed(f), 1)(x, W), (X[0],), (V,)),
    "vmap of jvp": lambda f: vmap(lambda t: jvp(lambda x: f(x, W), (X[0],), (t,)))(X),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_transforms_of_torch_func_are_those_of_the_formula(name, either_precision_of_jax):
    transform = TRANSFORMS[name]
    agree(transform(single), transform(formula))


def test_a_batch_may_be_mapped_along_any_axis():
    x = torch.stack([X, 2 * X, X - 1], dim=2)  # as long as the axis before it
    w = torch.stack([W, -W, W / 2], dim=1)
    for dims in ((2, None), (2, 1), (None, 1), (-1, -1)):
        given = (X if dims[0] is None else x, W if dims[1] is None else w)
        agree(vmap(batched, dims)(*given), vmap(formula, dims)(*given))


def test_backward_reaches_through_a_transform_to_what_it_closes_over():
    def derivative(function):
        x, w = leaves()
        forces = vmap(grad(lambda x: function(x, w).sum()))(x)
        return torch.autograd.grad((forces**2).sum(), (x, w))

    agree(derivative(single), derivative(formula))


def test_forward_mode_is_the_directional_derivative():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, 2 * X)
        found = forward_ad.unpack_dual(batched(x, W)).tangent
    agree(found, jvp(lambda x: formula(x, W), (X,), (2 * X,))[1])


def test_the_key_has_no_gradient_and_steers_the_draws():
    sampled = bridged(backend={"kind": "aer", "shots": 400})
    one, two = torch.tensor([1, 2]), torch.tensor([1, 3])
    x, w = leaves()
    values = [sampled(x, w, key) for key in (one, one, two)]
    assert torch.equal(values[0], values[1]) and not torch.equal(values[0], values[2])
    slopes = [torch.autograd.grad(sampled(x, w, key).sum(), x)[0] for key in (one, one, two)]
    assert torch.equal(slopes[0], slopes[1]) and not torch.equal(slopes[0], slopes[2])
    (exact,) = torch.autograd.grad(formula(x, w).sum(), x)
    np.testing.assert_allclose(slopes[0], exact, atol=0.25)


# Requests.


@pytest.mark.parametrize("kind", ["reference", "aer"])
def test_a_step_is_one_request_forward_and_one_backward(kind):
    function = bridged(backend=kind)
    with recorded() as runs:
        function(*leaves()).sum().backward()
    assert [run.primitive for run in runs] == ["expval", "expval_vjp"]


@pytest.mark.parametrize(
    ("transform", "primitives"),
    [
        (lambda f: vmap(f, (0, None))(X, W), ["expval"]),
        (lambda f: vmap(vmap(f, (None, 0)), (0, None))(X, X), ["expval"]),
        (lambda f: vmap(grad(summed(f)), (0, None))(X, W), ["expval", "expval_vjp"]),
        (lambda f: jacrev(f)(X[0], W), ["expval", "expval_vjp"]),
        (lambda f: jacfwd(f)(X[0], W), ["expval", "expval_jvp"]),
    ],
)
def test_a_transform_is_one_request_per_order(transform, primitives):
    with recorded() as runs:
        transform(single)
    assert [run.primitive for run in runs] == primitives


def test_derivatives_that_nobody_needs_are_not_asked_for():
    """Those of a force by the cotangents of the energy would be one request more."""

    @qml.qkernel(qubits=2)
    def linear(qc, x, w):
        qc.rx(x[0] + w[0], 0)
        qc.rx(x[1] - w[1], 1)
        return [qml.Z(0), qml.Z(0) @ qml.Z(1)]

    batched, (x, w) = bridged(linear), leaves()
    with recorded() as runs:
        (force,) = torch.autograd.grad(batched(x, w).sum(), x, create_graph=True)
        (force**2).sum().backward()
    assert [run.primitive for run in runs] == ["expval", "expval_vjp", "expval_hvp"]
    with recorded() as runs, torch.no_grad():
        batched(x, w)
    assert [run.primitive for run in runs] == ["expval"]


def test_trying_out_shapes_asks_no_engine():
    def not_on_meta(x):
        return x * float(keras.ops.sum(x) * 0 + 1)  # has no value there

    layer = QuantumLayer(circuit, {"w": (2,)}, backend="aer")
    with recorded() as runs:
        inputs = keras.Input((2,))
        outputs = keras.layers.Lambda(not_on_meta, output_shape=(2,))(layer(inputs))
        model = keras.Model(inputs, outputs)
        model.compile("sgd", "mse")
        shape = keras.layers.Lambda(lambda x: not_on_meta(layer(x))).compute_output_shape((None, 2))
    assert shape == (None, 2)
    meta = batched(X.to("meta").requires_grad_(), W)
    assert meta.is_meta and meta.shape == (3, 2) and meta.requires_grad
    assert runs == []


# Memory.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T.contiguous().T,
        lambda x: torch.stack([x, x], dim=-1)[..., 0],
        lambda x: x[:1].expand(5, 2),
        lambda x: torch.cat([x[:, :1], x], dim=1)[:, 1:],
        lambda x: x.flip(0),
        lambda x: x[1:],
    ],
)
def test_tensors_of_any_layout_are_read_as_they_are(view, dtype):
    x = view(X.to(dtype)).requires_grad_()
    copy = x.detach().clone(memory_format=torch.contiguous_format).requires_grad_()
    for of in (x, copy):
        batched(of, W.to(dtype)).sum().backward()
    assert torch.equal(x.grad, copy.grad) and x.grad.dtype == dtype
    assert torch.equal(batched(x, W.to(dtype)), batched(copy, W.to(dtype)))


@pytest.mark.parametrize("samples", [1, 4096])  # small, and large enough to be shared
def test_what_is_written_to_the_inputs_afterwards_changes_no_result(samples):
    x = torch.linspace(-1, 1, 2 * samples, dtype=torch.float64).reshape(samples, 2)
    function = bridged(backend="statevector")
    right = formula(x, W)
    x.requires_grad_()
    values = function(x, W)
    with torch.no_grad():
        x.zero_()
    np.testing.assert_allclose(values.detach(), right, atol=1e-12)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        values.sum().backward()  # rather than a gradient at another point


@pytest.mark.parametrize("backend", ["reference", "statevector", "xla"])
def test_what_is_written_to_a_result_reaches_nothing_else(backend):
    function = bridged(backend=backend)
    x, w = leaves()

    def results():
        values = function(x, w)
        slopes = torch.autograd.grad(values.sum(), (x, w))
        return [values.detach(), *slopes]

    first = results()
    assert len({result.data_ptr() for result in first}) == 3
    kept = [result.clone() for result in first]
    for result in first:
        result.mul_(-3)
    agree((x.detach(), w.detach()), (X, W))
    agree(results(), kept)


def test_equal_gradients_of_two_weights_are_two_tensors():
    @qml.qkernel(qubits=1)
    def sum_of_two(qc, a, b):
        qc.rx(a + b, 0)
        return qml.Z(0)

    function = BatchedKernel.of(sum_of_two, {"b": (), "a": ()}).on(resolve("reference"))
    a, b = torch.tensor(0.3, requires_grad=True), torch.tensor(0.4, requires_grad=True)
    (value,) = HostOperation(lambda: function, (2,))(None, [b, a])
    of_a, of_b = torch.autograd.grad(value.sum(), (a, b))
    of_a.zero_()
    np.testing.assert_allclose(of_b, -np.sin(0.7), atol=1e-6)


def test_an_empty_batch_has_an_empty_and_a_zero_gradient():
    x, w = X[:0].clone().requires_grad_(), W.clone().requires_grad_()
    with recorded() as runs:
        values = batched(x, w)
        values.sum().backward()
    assert values.shape == (0, 2) and x.grad.shape == (0, 2) and torch.all(w.grad == 0)
    assert runs == []


# Errors.


def test_an_error_of_the_engine_arrives_as_itself():
    function = bridged(backend={"kind": "aer", "shots": 10})
    key = torch.tensor([1, 2])
    x, w = leaves()
    with pytest.raises(EngineError, match=r"^1 of 3 rows .* unscaled input\.$"):
        function(torch.where(X == 1.1, torch.nan, x), w, key)
    with pytest.raises(EngineError, match=r"^1 of 3 rows"):
        vmap(lambda x: function(x[None], w, key))(torch.where(X == 1.1, torch.nan, X))
    values = function(x, w, key)
    x.data[0, 0] = torch.nan
    with pytest.raises(EngineError, match=r"rows of angles hold NaN or infinity"):
        values.sum().backward()
    assert torch.isfinite(function(X, W, key)).all()


def test_an_error_of_the_engine_arrives_as_itself_in_fit():
    layer = QuantumLayer(circuit, {"w": (2,)}, backend={"kind": "aer", "shots": 10})
    model = keras.Sequential([keras.Input((2,)), layer])
    model.compile("sgd", "mse")
    with pytest.raises(EngineError, match="rows of angles hold NaN or infinity"):
        model.fit(np.full((4, 2), np.nan), np.zeros((4, 2)), verbose=0)


def test_an_error_that_is_not_ours_stays_what_it_is():
    def broken(key, x, w):
        raise ZeroDivisionError("of somebody else")

    with pytest.raises(ZeroDivisionError, match="of somebody else"):
        HostOperation(lambda: broken, (2,))(None, [X, W])


# Training.


def module():
    """A hybrid model as PyTorch users write it."""

    class Hybrid(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.front = torch.nn.Linear(2, 2)
            self.quantum = QuantumLayer(circuit, {"w": (2,)})
            self.quantum.build((None, 2))

        def forward(self, x):
            return self.quantum(torch.tanh(self.front(x)))

    keras.utils.set_random_seed(5)  # PyTorch's too
    return Hybrid()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_compiled_module_trains_as_an_eager_one(backend):
    """The graph breaks at the layer; weights on both sides of it and in it move."""
    eager, to_compile = module(), module()
    compiled = torch.compile(to_compile, backend=backend)
    x = X.float()
    trained = lambda owner: [p for p in owner.parameters() if p.requires_grad]
    start = [p.detach().clone() for p in trained(eager)]
    curves = []
    for run, owner in ((eager, eager), (compiled, to_compile)):
        optimizer = torch.optim.SGD(owner.parameters(), 0.2)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = ((run(x) - 0.3) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        curves.append(losses)
    np.testing.assert_allclose(*curves, rtol=1e-5)
    assert curves[0][-1] < 0.95 * curves[0][0]
    moved = [not torch.equal(p, was) for p, was in zip(trained(to_compile), start, strict=True)]
    assert moved == 3 * [True]


@pytest.mark.slow
def test_workers_of_a_data_loader_feed_a_training():
    x = torch.linspace(-1, 1, 24).reshape(12, 2)
    data = torch.utils.data.TensorDataset(x, formula(x, torch.tensor([0.5, 1.0])))
    loader = torch.utils.data.DataLoader(
        data, batch_size=5, num_workers=2, multiprocessing_context="spawn"
    )
    layer = QuantumLayer(circuit, {"w": (2,)}, initializer="zeros", backend="reference")
    model = keras.Sequential([keras.Input((2,)), layer])
    model.compile(keras.optimizers.Adam(0.1), "mse")
    with recorded() as runs:
        losses = model.fit(loader, epochs=2, shuffle=False, verbose=0).history["loss"]
    assert losses[1] < losses[0]
    values = [run.rows for run in runs if run.primitive == "expval"]
    assert values == 2 * [5, 5, 2]


def third_order_loss(model, x, y):
    x = x.detach().requires_grad_()
    value = model(x).sum()
    for _ in range(3):
        (slope,) = torch.autograd.grad(value, x, create_graph=True)
        value = slope[:, 0].sum()
    return ((slope[:, 0] - y) ** 2).mean()


def test_a_loss_on_third_derivatives_trains_every_weight():
    """d3/dx3 of the model's energy, in a train_step of the user's own."""

    class ThirdOrder(keras.Model):
        def __init__(self):
            super().__init__(dtype="float64")
            self.front = keras.layers.Dense(2, "tanh", dtype="float64")
            self.quantum = QuantumLayer(circuit, {"w": (2,)}, dtype="float64")

        def call(self, x):
            return self.quantum(self.front(x))

        def train_step(self, data):
            self.zero_grad()
            loss = third_order_loss(self, *data)
            loss.backward()
            trainable = list(self.trainable_weights)
            with torch.no_grad():
                self.optimizer.apply([v.value.grad for v in trainable], trainable)
            return {"of third derivatives": loss}

    model = ThirdOrder()
    model.compile(keras.optimizers.SGD(1e-3))
    x, y = X, torch.tensor([0.1, -0.2, 0.3], dtype=torch.float64)
    model(x)
    model.set_weights([np.array([[1.0, 0.4], [-0.5, 0.9]]), np.array([0.1, -0.2]), W.numpy()])
    weights = [v.value for v in model.trainable_weights]
    matrix, bias, angles = [w.detach().clone().requires_grad_() for w in weights]
    right = lambda x: formula(torch.tanh(x @ matrix + bias), angles)
    found = torch.autograd.grad(third_order_loss(model, x, y), weights)
    expected = torch.autograd.grad(third_order_loss(right, x, y), (matrix, bias, angles))
    for a, b in zip(found, expected, strict=True):
        # Keras' Dense multiplies doubles in single precision on PyTorch.
        np.testing.assert_allclose(a, b, rtol=3e-6)
    history = model.fit(x.numpy(), y.numpy(), epochs=15, verbose=0).history
    losses = history["of third derivatives"]
    assert losses[-1] < 0.9 * losses[0]
