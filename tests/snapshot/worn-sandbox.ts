import { readFile, writeFile } from 'node:fs/promises'
import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { expect } from 'vitest'

/** Enough for its layers to be merged. */
const SLEEPS = 18

const START = `
import hashlib, os, random
data = bytearray(os.urandom(24 << 20)); address = id(data); freed = bytearray(os.urandom(24 << 20)); os.makedirs("/root/d"); expected = {}
def live(n):
    open(f"/root/d/{n}", "wb").write(os.urandom(300_000)); expected[n] = hashlib.sha256(open(f"/root/d/{n}", "rb").read()).digest()
    if n > 3: os.unlink(f"/root/d/{n - 3}"); del expected[n - 3]
`
/** Half of the memory file is not used any more, and the other half has scattered changes. */
const WEAR = `
freed = None
for at in range(0, len(data), 1 << 20): data[at] ^= 1
seal = hashlib.sha256(data).digest()
`
const CHECK = `
found = {int(name): hashlib.sha256(open(f"/root/d/{name}", "rb").read()).digest() for name in os.listdir("/root/d")}
print(hashlib.sha256(data).digest() == seal, id(data) == address, found == expected)
`

async function run(burrow: Burrow, code: string): Promise<string> {
  const { error, stdout } = await burrow.guest.runs.run({ code })
  expect(error?.traceback).toBeUndefined()
  return stdout
}

/** Sleeps, with one snapshot left: many layers, and a memory file of which much is waste. */
export async function wearOut(engine: Engine): Promise<SnapshotId> {
  let burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  await run(burrow, START)
  for (let sleep = 1; sleep <= SLEEPS; sleep++) {
    await run(burrow, `live(${sleep})`)
    const former = await engine.listSnapshots()
    burrow = (await engine.snapshot(burrow, { leave: 'running' })).burrow!
    for (const { id } of former) await engine.deleteSnapshot(id)
  }
  await run(burrow, WEAR)
  const former = await engine.listSnapshots()
  const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
  for (const { id } of former) await engine.deleteSnapshot(id)
  return snapshot.id
}

/** As if a snapshot had been taken long ago: upkeep folds its pages. */
export async function ageSnapshot(manifestPath: string): Promise<void> {
  const manifest: object = JSON.parse(await readFile(manifestPath, 'utf8'))
  const createdAt = new Date(Date.now() - 3_600_000).toISOString()
  await writeFile(manifestPath, JSON.stringify({ ...manifest, createdAt }))
}

/** Wakes it and sees that all is there; it does not sleep again. */
export async function expectWhole(engine: Engine, id: SnapshotId): Promise<void> {
  const burrow = await engine.restore(id, { sandboxId: newSandboxId() })
  try {
    expect(await run(burrow, CHECK)).toBe('True True True\n')
  } finally {
    await burrow.destroy()
  }
}
