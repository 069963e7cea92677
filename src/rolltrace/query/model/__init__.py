"""What questions about a store are answered with: every type once. The viewer sends them as they are, and OpenAPI and
the TypeScript types are generated from here.

- A `Number` that JSON cannot hold is one of the texts `nan`, `inf`, `-inf`.
- Ids of ops are text: they have 62 bits, and a JavaScript number keeps 53. So are sample indexes, which may be either.
- Times `..._ns` are nanoseconds since 1970; JavaScript rounds them to 256 ns, so what is short is given in seconds.
- Recorded values (`Json`) are bounded: `query.values` says what stands where something was cut.
"""

from typing import Any, Literal

Number = float | Literal["nan", "inf", "-inf"]
Json = Any
