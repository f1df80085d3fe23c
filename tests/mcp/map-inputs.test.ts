import { ERROR_META } from '@dormouse/mcp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { McpClient } from './mcp-client.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start({ idleTimeoutMs: 0 })
})
afterAll(() => server?.cleanUp())

describe('map_inputs', () => {
  test('runs code over inputs in forks of the sandbox, and returns results by index', async () => {
    await using mcp = await McpClient.overHttp(server)
    await mcp.call('run_python', { code: 'base = 100' })
    const answer = await mcp.call('map_inputs', {
      code: 'base // item',
      inputs: [1, 0, 4],
      concurrency: 2,
      waitMs: 60_000,
    })
    expect(answer.structuredContent).toMatchObject({ total: 3, succeeded: 2, failed: 1 })
    const { results, job } = answer.structuredContent
    expect(results.map(({ index, state }: { index: number; state: string }) => [index, state])).toEqual([
      [0, 'succeeded'],
      [1, 'failed'],
      [2, 'succeeded'],
    ])
    expect([results[0].result, results[2].result]).toEqual(['100', '25'])
    expect(results[1].result).toContain('ZeroDivisionError')
    const again = await mcp.call('map_inputs', { job, after: 1 })
    expect(again.structuredContent.results).toHaveLength(1)
    // The sandbox has none of it.
    expect(await mcp.text('run_python', { code: "'item' in globals()" })).toBe('False')
  }, 90_000)

  test('leaves a job that a later conversation finds in the list, and cancels', async () => {
    let job: string
    {
      await using mcp = await McpClient.overHttp(server)
      const code = 'import time; time.sleep(600)'
      const begun = await mcp.call('map_inputs', { code, inputs: [1, 2, 3], concurrency: 1, waitMs: 0 })
      job = begun.structuredContent.job
    }
    await using mcp = await McpClient.overHttp(server)
    const { structuredContent: listed } = await mcp.call('jobs', { action: 'list' })
    expect(listed.jobs[0]).toMatchObject({ job, total: 3, succeeded: 0, failed: 0 })
    const { structuredContent: cancelled } = await mcp.call('jobs', { action: 'cancel', job })
    expect(cancelled.jobs).toMatchObject([{ job, state: expect.stringMatching(/^cancel/) }])
    await expect
      .poll(async () => (await mcp.call('map_inputs', { job })).structuredContent.state, { timeout: 30_000 })
      .toBe('cancelled')
    const refused = await mcp.call('jobs', { action: 'cancel' })
    expect(refused).toMatchObject({ isError: true, _meta: { [ERROR_META]: { code: 'invalid_argument' } } })
  }, 60_000)

  test('without code, inputs or a job says what to give', async () => {
    await using mcp = await McpClient.overHttp(server)
    const answer = await mcp.call('map_inputs', { code: '1' })
    expect(answer).toMatchObject({ isError: true, _meta: { [ERROR_META]: { code: 'invalid_argument' } } })
  })
})
