import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { ServerProcess } from '../server/server-process.ts'
import { type Language, Refused, type Surface } from './surface.ts'

const launcher = fileURLToPath(new URL('../../dormouse', import.meta.url))

/** `dormouse … --json`, as a script types it. */
export async function cliSurface(server: ServerProcess): Promise<Surface> {
  const env = { PATH: process.env['PATH'], DORMOUSE_URL: server.url, DORMOUSE_API_KEY: server.key }

  async function type(args: string[], { input = '', see = (_output: string) => {} } = {}): Promise<string> {
    const child = spawn(launcher, args, { env })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (data) => {
      stdout += data
      see(data)
    })
    child.stderr.setEncoding('utf8').on('data', (data) => {
      stderr += data
    })
    child.stdin.on('error', () => {}).end(input)
    const [status] = await once(child, 'close')
    if (status === 0 || stdout !== '') return stdout
    const refusal = /^\{"error".*$/m.exec(stderr)?.[0]
    throw refusal === undefined
      ? new Error(`${args.join(' ')}: ${stderr}`)
      : new Refused(JSON.parse(refusal).error.code)
  }
  const json = async (command: string, ...args: string[]) =>
    JSON.parse(await type([command, '--json', ...args]))
  return {
    create: (template) => json('create', ...(template === undefined ? [] : ['--template', template])),
    run: (id, code, language) => json('run', id, code, ...inLanguage(language)),
    stream: async (id, code, see, language) =>
      void (await type(['run', id, code, ...inLanguage(language)], { see })),
    standby: (id, tier) => json('standby', id, ...(tier === 'stored' ? ['--stored'] : [])),
    resume: (id) => json('resume', id),
    fork: async (id, count) =>
      (await json('fork', id, '-n', `${count}`)).children.map(({ id: child }: { id: string }) => child),
    async write(id, path, content) {
      await json('exec', id, '--', 'mkdir', '-p', path.slice(0, path.lastIndexOf('/')))
      await type(['cp', '-', `${id}:${path}`, '--json'], { input: content })
    },
    read: (id, path) => type(['cp', `${id}:${path}`, '-', '--json']),
    list: async (id, path) => (await json('exec', id, '--', 'ls', '-1A', path)).stdout.trim().split('\n'),
    delete: async (id) => void (await json('rm', id)),
    async [Symbol.asyncDispose]() {},
  }
}

/** As people type it. */
const SHORT = { javascript: 'js', typescript: 'ts', r: 'r' }

function inLanguage(language: Language | undefined): string[] {
  return language === undefined ? [] : ['-l', SHORT[language]]
}
