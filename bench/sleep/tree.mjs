import { newSandboxId } from '@dormouse/contracts'
import { python } from '../workbench.mjs'

const COLUMNS = 16
const ROW_BYTES = COLUMNS * 8
const GIB = 1024 ** 3

/** Creates a burrow whose kernel holds a pandas frame of `bytes` random bytes (decimal: 1 GB is 10⁹ bytes). */
export async function growTree(engine, bytes) {
  const burrow = await engine.createBurrow({
    sandboxId: newSandboxId(),
    template: 'python',
    limits: { memoryBytes: 6 * GIB, cpus: 2 },
  })
  await python(
    burrow,
    `
import time, zlib
import numpy as np, pandas as pd
df = pd.DataFrame(np.random.default_rng(1).random((${bytes / ROW_BYTES}, ${COLUMNS})))
address, last, checksum = id(df), df.iat[-1, -1], zlib.crc32(df.to_numpy())
def timed_sum():
    start = time.perf_counter()
    df.to_numpy().sum()
    return (time.perf_counter() - start) * 1e3
`,
  )
  return burrow
}

/** Gets the first result: cheap to compute, and wrong unless this is the same frame with its data. */
export async function checkAnswer(burrow) {
  await expectTrue(burrow, 'id(df) == address and df.iat[-1, -1] == last')
}

/** Reads every byte of the frame. */
export async function checkContent(burrow) {
  await expectTrue(burrow, 'id(df) == address and zlib.crc32(df.to_numpy()) == checksum')
}

export async function changeBytes(burrow, bytes) {
  await python(burrow, `df.to_numpy()[:${bytes / ROW_BYTES}] += 1`)
}

export async function sumMs(burrow) {
  return Number(await python(burrow, 'print(timed_sum())'))
}

async function expectTrue(burrow, expression) {
  const answer = await python(burrow, `print(${expression})`)
  if (answer !== 'True') throw new Error(`After a wake, ${expression} is ${answer}.`)
}
