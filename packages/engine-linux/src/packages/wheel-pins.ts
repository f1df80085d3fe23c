/** One wheel of a Python package, by the digest of its file. */
export interface WheelPin {
  readonly name: string
  readonly version: string
  readonly file: string
  /** For pip's `--platform`. */
  readonly platform: string
  readonly sha256: string
}

export interface Library {
  readonly version: string
  /** Everything that it needs beside the Python of the template. */
  readonly wheels: readonly WheelPin[]
}

const POLARS = '1.44.2'

/** Its wheels are for Python's stable ABI: one fits every version that Debian may have. */
const POLARS_PINS: Readonly<Partial<Record<NodeJS.Architecture, Library>>> = {
  x64: {
    version: POLARS,
    wheels: [
      {
        name: 'polars',
        version: POLARS,
        file: `polars-${POLARS}-py3-none-any.whl`,
        platform: 'any',
        sha256: '1bb331f17a40d9d931101533dcd33637b66edc61eb377b07020dac16a0f0377b',
      },
      {
        name: 'polars-runtime-32',
        version: POLARS,
        file: `polars_runtime_32-${POLARS}-cp310-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl`,
        platform: 'manylinux2014_x86_64',
        sha256: 'a1bafb441e99199a62c63bf1bbdc0ea09ee9776dbac2bf31452b5000fb1df2f7',
      },
    ],
  },
}

export function polarsPin(arch: NodeJS.Architecture): Library | undefined {
  return POLARS_PINS[arch]
}
