import { readFile, writeFile } from 'node:fs/promises'

/** Upkeep folds pages after a minute. */
const AGE_MS = 3_600_000

/** Keeps the pages of all snapshots as they are, however long a benchmark takes. */
export function foldNone(engine) {
  engine.transferOf('process').limitForms(() => false)
}

/** Folds the pages of this snapshot, as if it had been taken long ago, and of no other. */
export async function foldSnapshot({ engine, layout }, id) {
  const path = layout.snapshot(id).manifest
  const manifest = JSON.parse(await readFile(path, 'utf8'))
  const createdAt = new Date(Date.now() - AGE_MS).toISOString()
  await writeFile(path, JSON.stringify({ ...manifest, createdAt }))
  engine.transferOf('process').limitForms(() => true)
  await engine.upkeep()
  foldNone(engine)
  const { folded } = JSON.parse(await readFile(path, 'utf8'))
  if (folded !== true) throw new Error('The pages of the snapshot were not folded.')
}
