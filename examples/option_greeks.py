"""Option greeks: sensitivities of prices, of first and second order, and by simulation.

A European call by the formula of Black and Scholes, where the greeks are known; its implied
volatility; and an Asian option by Monte Carlo, whose price has no formula.

Shows: `nt.grad` of a dictionary, nested derivatives, `nt.vmap` over strikes, `brentq` inside of a
differentiated function, and random numbers as `nt.Constant`.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

import numbatape as nt


def call(spot, volatility, time, rate, strike):
    """Return the price of a European call."""
    root = volatility * np.sqrt(time)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * time) / root
    return spot * norm.cdf(d1) - strike * np.exp(-rate * time) * norm.cdf(d1 - root)


def implied(price, spot, time, rate, strike):
    """Return the volatility at which a call has a price."""
    return brentq(
        lambda volatility: call(spot, volatility, time, rate, strike) - price, 1e-4, 5.0, xtol=1e-14
    )


def asian(market, strike, normals):
    """Return the price of an Asian call (on the mean of the path), by simulation."""
    steps = normals.shape[1]
    dt = market["time"] / steps
    drift = (market["rate"] - 0.5 * market["volatility"] ** 2) * dt
    path = np.cumsum(drift + market["volatility"] * np.sqrt(dt) * normals, axis=1)
    payoff = np.maximum(market["spot"] * np.mean(np.exp(path), axis=1) - strike, 0.0)
    return np.exp(-market["rate"] * market["time"]) * np.mean(payoff)


def main(paths=20_000):
    market = 42.0, 0.2, 0.5, 0.1  # spot, volatility, time and rate of an example by Hull
    print(f"call at strike 40: {call(*market, 40.0):.4f}")
    np.testing.assert_allclose(call(*market, 40.0), 4.76, atol=0.005)

    # Greeks are derivatives of the price: for all strikes at once, beside the formulas of textbooks.
    strikes = np.linspace(30.0, 50.0, 9)
    spot, volatility, time, rate = market

    def each(greek):
        return nt.vmap(greek, in_axes=(None, None, None, None, 0))(*market, strikes)

    by_spot = nt.grad(call, argnums=0)
    delta, vega = each(by_spot), each(nt.grad(call, argnums=1))
    gamma, vanna = each(nt.grad(by_spot, argnums=0)), each(nt.grad(by_spot, argnums=1))
    d1 = (np.log(spot / strikes) + (rate + 0.5 * volatility**2) * time) / (volatility * np.sqrt(time))
    d2 = d1 - volatility * np.sqrt(time)
    np.testing.assert_allclose(delta, norm.cdf(d1), rtol=1e-10)
    np.testing.assert_allclose(vega, spot * norm.pdf(d1) * np.sqrt(time), rtol=1e-10)
    np.testing.assert_allclose(gamma, norm.pdf(d1) / (spot * volatility * np.sqrt(time)), rtol=1e-10)
    np.testing.assert_allclose(vanna, -norm.pdf(d1) * d2 / volatility, rtol=1e-9)
    for row in zip(strikes, delta, gamma, vega, vanna, strict=True):
        print("strike {:5.1f}  delta {:.4f}  gamma {:.4f}  vega {:7.4f}  vanna {:7.4f}".format(*row))

    found, slope = nt.value_and_grad(implied)(call(*market, 45.0), spot, time, rate, 45.0)
    print(f"implied volatility {found:.6f}, which grows by {slope:.6f} with the price (1 / vega)")
    np.testing.assert_allclose([found, slope], [0.2, 1 / vega[6]], rtol=1e-9)

    start = {"spot": 42.0, "volatility": 0.2, "time": 0.5, "rate": 0.1}
    normals = np.random.default_rng(0).normal(size=(paths, 50))
    price, greeks = nt.value_and_grad(asian)(start, 40.0, normals)
    print(f"Asian call {price:.3f}:", ", ".join(f"d/d{name} {value:.3f}" for name, value in greeks.items()))
    bumped = [asian({**start, "spot": 42.0 + step}, 40.0, normals) for step in (-1e-4, 1e-4)]
    np.testing.assert_allclose(greeks["spot"], (bumped[1] - bumped[0]) / 2e-4, rtol=1e-3)


if __name__ == "__main__":
    main()
