import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { buildTemplate } from '../server/build-template.ts'
import { ServerProcess } from '../server/server-process.ts'

const isWanted = process.env['DORMOUSE_TEST_REGISTRIES'] === '1'
const MINUTES = 300_000
vi.setConfig({ testTimeout: MINUTES, hookTimeout: MINUTES })

// Skip: R comes from Debian, 150 MB of packages; DORMOUSE_TEST_REGISTRIES=1 runs these tests.
describe.runIf(isWanted)('an R context', () => {
  let server: ServerProcess
  let id: string
  beforeAll(async () => {
    server = await ServerProcess.start()
    const dockerfile =
      'FROM template:python\nRUN apt-get update && apt-get install -y --no-install-recommends r-base-core\n'
    expect(await buildTemplate(server, { name: 'r', dockerfile })).toMatchObject({ state: 'ready' })
    id = (await server.ok('/v1/sandboxes', { json: { template: 'r' } })).id
  })
  afterAll(() => server?.cleanUp())

  const run = (code: string, more: object = {}, sandbox = id) =>
    server.ok(`/v1/sandboxes/${sandbox}/run`, { json: { code, language: 'r', ...more } })
  const value = async (code: string, sandbox = id) =>
    (await run(code, {}, sandbox)).results.at(-1)?.['text/plain']

  test('keeps its variables, functions and packages, and shows the value of the last expression', async () => {
    await run('x <- c(1, 2, 3); twice <- function(a) a * 2; library(stats4)')
    expect(await value('twice(mean(x))')).toBe('[1] 4')
    expect(await value('"package:stats4" %in% search()')).toBe('[1] TRUE')
    expect(await run('1 + 1; invisible(5)')).toMatchObject({ stdout: '[1] 2\n', results: [] })
    expect(await value('data.frame(a = 1:2, b = c("x", "ü"))')).toBe('  a b\n1 1 x\n2 2 ü')
  })

  test('streams output, messages and warnings', async () => {
    expect(await run('cat("out\\n"); message("err"); warning("careful"); NULL')).toMatchObject({
      stdout: 'out\n',
      stderr: 'err\nWarning: careful\n',
      results: [{ 'text/plain': 'NULL' }],
    })
  })

  test('reports errors with the calls of the code only', async () => {
    const { error, exitCode, stderr } = await run(
      'f <- function(a) stop("no way"); g <- function() f(1); g()',
    )
    const traceback = 'Error in f(1) : no way\n  1. g()\n  2. f(1)\n  3. stop("no way")\n'
    expect(error).toEqual({ name: 'simpleError', message: 'no way', traceback })
    expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: traceback })
    expect((await run('1 +')).error.message).toContain('unexpected end of input')
    expect(
      (
        await run(
          'stop(structure(class = c("mine", "error", "condition"), list(message = "m", call = NULL)))',
        )
      ).error,
    ).toMatchObject({ name: 'mine', message: 'm' })
  })

  test('shows every page of a plot as an image', async () => {
    const { results } = await run('plot(1:10); lines(1:10); hist(c(1, 2, 2)); invisible()')
    const heads = results.map((result: Record<string, string>) =>
      Buffer.from(result['image/png'] ?? '', 'base64')
        .subarray(1, 4)
        .toString(),
    )
    expect(heads).toEqual(['PNG', 'PNG'])
    expect((await run('1')).results).toHaveLength(1)
  })

  test.each([
    ['a loop', 'repeat {}'],
    ['a wait', 'Sys.sleep(100)'],
    ['a program', 'system("sleep 100")'],
  ])('%s is interrupted, and the variables stay', async (_what, code) => {
    await run('before <- 1')
    const stopped = await run(code, { timeoutMs: 500 })
    expect(stopped).toMatchObject({ timedOut: true })
    expect(stopped.contextRestarted).toBeUndefined()
    expect(await value('before')).toBe('[1] 1')
  })

  test('ends only the run with quit(), asks nothing, and survives code that closes all connections', async () => {
    await run('kept <- 1')
    expect(await run('quit(status = 3); cat("never")')).toMatchObject({ exitCode: 3, stdout: '' })
    expect(await run('invisible(readline("name? ")); system("cat"); closeAllConnections()')).toMatchObject({
      exitCode: 0,
    })
    expect(await run('sink("/tmp/log"); print(1)')).toMatchObject({ stdout: '' })
    expect(await value('kept')).toBe('[1] 1')
  })

  test('sleeps on disk and forks with its variables, each copy with random numbers of its own', async () => {
    await run('big <- as.numeric(1:1e6); set.seed(1)')
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    expect(await value('sum(big)')).toBe('[1] 500000500000')
    const { children } = await server.ok(`/v1/sandboxes/${id}/fork`, { json: { count: 2 } })
    const seen = await Promise.all(
      children.map(async (child: { id: string }) => {
        expect(await value('sum(big)', child.id)).toBe('[1] 500000500000')
        return value('runif(1)', child.id)
      }),
    )
    expect(new Set(seen).size).toBe(2)
  })

  test('is missing in a sandbox without R', async () => {
    const { id: plain } = await server.ok('/v1/sandboxes', { json: { template: 'python' } })
    const { body } = await server.call(`/v1/sandboxes/${plain}/run`, { json: { code: '1', language: 'r' } })
    expect(body.error).toMatchObject({ code: 'language_missing', message: expect.stringContaining('no R,') })
  })
})
