import { readdir } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { ModelRun } from './model/model-run.ts'
import { Random } from './model/random.ts'

/** A minute in the suite; `DORMOUSE_MODEL_SECONDS=3600` for an hour, `DORMOUSE_MODEL_SEED` plays a run again. */
const SECONDS = Number(process.env['DORMOUSE_MODEL_SECONDS'] ?? 60)
const SEED = Number(process.env['DORMOUSE_MODEL_SEED'] ?? Math.floor(Math.random() * 2 ** 32))
const VERIFY_ALL_EVERY_STEPS = 10
const HISTORY_LINES = 60

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start()
})
afterAll(() => server?.cleanUp())

test(`random operations and kill -9 lose nothing that was acknowledged (seed ${SEED})`, {
  timeout: SECONDS * 1000 + 300_000,
}, async () => {
  const run = new ModelRun(server, new Random(SEED))
  const end = performance.now() + SECONDS * 1000
  try {
    for (let step = 1; performance.now() < end; step += 1) {
      await run.step()
      if (step % VERIFY_ALL_EVERY_STEPS === 0) await run.verifyAll()
    }
    await run.verifyAll()
  } catch (cause) {
    const history = run.history.slice(-HISTORY_LINES).join('\n')
    throw new Error(`Seed ${SEED}: ${cause instanceof Error ? cause.message : cause}\n${history}`, { cause })
  }
  console.info(
    `model: seed ${SEED}, ${run.operations} operations, ${run.kills} kills, ${run.verifications} verifications`,
  )
  await run.removeAll()
  const { snapshotsDir, layersDir } = server.factory.layout
  const left = async () => [...(await readdir(snapshotsDir)), ...(await readdir(layersDir))]
  // What was deleted is collected in the background.
  await expect.poll(left, { timeout: 60_000 }).toEqual([])
  await server.stop()
  expect(await server.factory.traces()).toEqual([])
})
