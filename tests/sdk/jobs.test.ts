import { readFile } from 'node:fs/promises'
import { DormouseError } from 'dormouse'
import { expect, test } from 'vitest'
import { testNode } from '../languages/put-node.ts'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()

/** As TypeScript writes it: types are gone when the program runs, and its text is JavaScript. */
const lengths = async (words: string[]) => {
  await new Promise((resolve) => setTimeout(resolve, 1))
  return words.map((word) => word.length)
}

test('a job runs a function over its inputs in forks, and streams what came of each', async () => {
  const { jobs } = server.client
  const sandbox = await server.create()
  await sandbox.files.write('/usr/local/bin/node', await readFile(await testNode()), { mode: '0755' })
  const { id } = await jobs.create({ code: lengths, inputs: [['ab'], ['def', '']], sandbox: sandbox.id })
  const seen = new Map<number, unknown>()
  let last = ''
  for await (const event of jobs.events(id, { results: true })) {
    if (event.type === 'end') last = event.job.state
    else seen.set(event.task.index, event.task.result?.text)
  }
  expect(last).toBe('finished')
  expect([seen.get(0), seen.get(1)]).toEqual(['[ 2 ]', '[ 3, 0 ]'])
  const failed = await jobs.create({
    code: (n: number) => {
      throw new RangeError(`not ${n}`)
    },
    inputs: [7],
    sandbox: sandbox.id,
  })
  expect((await jobs.wait(failed.id)).tasks).toMatchObject({ failed: 1 })
  expect(await jobs.task(failed.id, 0)).toMatchObject({ state: 'failed', message: 'RangeError: not 7' })
  for (const job of [id, failed.id]) await jobs.delete(job)
  await sandbox.delete()
})

test('a function without source is refused before anything starts', async () => {
  await expect(server.client.jobs.create({ code: Math.abs, inputs: [1] })).rejects.toSatisfy(
    (error) => error instanceof DormouseError && error.code === 'invalid_argument',
  )
  expect(await server.client.jobs.list().all()).toEqual([])
})
