import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { E2bServer } from './e2b-server.ts'

const program = fileURLToPath(new URL('../packages/node_modules/@e2b/cli/dist/index.js', import.meta.url))
const run = promisify(execFile)

/** E2B's command line, unmodified. */
export function cliSuite(e2b: E2bServer): void {
  let home: string
  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'dormouse-e2b-home-'))
  })
  afterAll(() => rm(home, { recursive: true, force: true }))

  async function cli(...args: string[]): Promise<string> {
    const { apiKey, apiUrl, sandboxUrl } = e2b.options
    const env = { ...process.env, HOME: home, NO_COLOR: '1', E2B_API_KEY: apiKey }
    const { stdout } = await run(process.execPath, [program, ...args], {
      env: { ...env, E2B_API_URL: apiUrl, E2B_SANDBOX_URL: sandboxUrl },
      cwd: home,
      timeout: 120_000,
    })
    return stdout
  }

  test('creates, lists, describes, uses, pauses, resumes, saves and kills sandboxes', async () => {
    const created = await cli('sandbox', 'create', 'base', '--detach')
    const id = /sb-\w+/.exec(created)?.[0] ?? ''
    expect(JSON.parse(await cli('sandbox', 'list', '-f', 'json'))).toContainEqual(
      expect.objectContaining({ sandboxId: id }),
    )
    expect(await cli('sandbox', 'info', id)).toContain(id)
    expect(await cli('sandbox', 'exec', id, 'id -un')).toBe('user\n')
    expect(await cli('sandbox', 'metrics', id)).toContain('Memory')
    expect(await cli('sandbox', 'logs', id)).toContain('created')
    await cli('sandbox', 'pause', id)
    await cli('sandbox', 'resume', id)
    const saved = /sn-\w+/.exec(await cli('sandbox', 'snapshot', 'create', id))?.[0] ?? ''
    expect(await cli('sandbox', 'snapshot', 'list', id)).toContain(saved)
    await cli('sandbox', 'snapshot', 'delete', saved)
    expect(await cli('sandbox', 'kill', id)).toContain('killed')
  }, 120_000)

  test('builds a Dockerfile, lists, publishes and deletes the template', async () => {
    await writeFile(join(home, 'e2b.Dockerfile'), 'FROM e2bdev/base\nRUN echo built > /built\nENV A=1\n')
    await cli('template', 'create', 'from-cli', '--cpu-count', '1', '--memory-mb', '512')
    expect(await cli('template', 'list')).toMatch(/Private +\w+ +from-cli +1 +512/)
    await cli('template', 'publish', 'from-cli', '-y')
    expect(await cli('template', 'list')).toMatch(/Public +\w+ +from-cli/)
    await cli('template', 'delete', 'from-cli', '-y')
    expect(await cli('template', 'list')).not.toContain('from-cli')
  }, 240_000)
}
