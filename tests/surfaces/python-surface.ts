import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { ServerProcess } from '../server/server-process.ts'
import { Refused, type Surface } from './surface.ts'

const program = fileURLToPath(new URL('python_surface.py', import.meta.url))
const PYTHONPATH = fileURLToPath(new URL('../../python', import.meta.url))

/** A Python program does the steps. It is asked one thing at a time. */
export async function pythonSurface(server: ServerProcess): Promise<Surface> {
  const env = {
    ...{ PATH: process.env['PATH'], PYTHONPATH, PYTHONDONTWRITEBYTECODE: '1' },
    ...{ DORMOUSE_URL: server.url, DORMOUSE_API_KEY: server.key },
  }
  const child = spawn('/usr/bin/python3', [program], { env, stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'close')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()

  // biome-ignore lint/suspicious/noExplicitAny: what comes back is compared by the scenario
  async function ask(question: object, see: (output: string) => void = () => {}): Promise<any> {
    child.stdin.write(`${JSON.stringify(question)}\n`)
    for (;;) {
      const { value, done } = await lines.next()
      if (done) throw new Error('the Python program ended')
      const said = JSON.parse(value)
      if (said.refused !== undefined) throw new Refused(said.refused)
      if (said.output === undefined) return said.answer
      see(said.output)
    }
  }
  return {
    create: (template) => ask({ do: 'create', template }),
    run: (id, code, language) => ask({ do: 'run', id, code, language }),
    stream: (id, code, see, language) => ask({ do: 'stream', id, code, language }, see),
    standby: (id, tier) => ask({ do: 'standby', id, tier }),
    resume: (id) => ask({ do: 'resume', id }),
    fork: (id, count) => ask({ do: 'fork', id, count }),
    write: (id, path, content) => ask({ do: 'write', id, path, content }),
    read: (id, path) => ask({ do: 'read', id, path }),
    list: (id, path) => ask({ do: 'list', id, path }),
    delete: (id) => ask({ do: 'delete', id }),
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      await ended
    },
  }
}
