"""M/M/1 at rho 0.9 on SimPy: one line with customers per second and the mean sojourn.

The way its documentation models a queue: a process per customer, which requests a resource.
Usage: simpy_mm1.py [CUSTOMERS] [SEED]
"""

import random
import sys
import time

import simpy

RHO = 0.9


def customer(env, server, service, sojourns):
    arrived = env.now
    with server.request() as request:
        yield request
        yield env.timeout(service())
    sojourns[0] += env.now - arrived
    sojourns[1] += 1


def arrivals(env, server, gap, service, customers, sojourns):
    for _ in range(customers):
        yield env.timeout(gap())
        env.process(customer(env, server, service, sojourns))


def main():
    customers = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    sojourns = [0.0, 0]
    start = time.perf_counter()
    env = simpy.Environment()
    server = simpy.Resource(env, capacity=1)
    env.process(arrivals(env, server, lambda: rng.expovariate(RHO), lambda: rng.expovariate(1.0), customers, sojourns))
    env.run()
    seconds = time.perf_counter() - start
    print(f"customers/s {customers / seconds:.0f} w {sojourns[0] / sojourns[1]:.4f} exact {1 / (1 - RHO):.4f}")


if __name__ == "__main__":
    main()
