import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const COMPLAINTS_MAX = 4_000
const program = fileURLToPath(new URL('ipykernel.py', import.meta.url))

/** Needs Debian's python3-ipykernel and python3-jupyter-client. */
export async function startIpykernel() {
  const child = spawn('/usr/bin/python3', [program], { stdio: 'pipe' })
  // It warns much, also when all is well.
  let complaints = ''
  child.stderr.on('data', (part) => {
    complaints = (complaints + part).slice(-COMPLAINTS_MAX)
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const first = await lines.next()
  if (first.value !== 'ready') throw new Error(`The plain ipykernel has not started: ${complaints}`)
  return {
    async runOnce() {
      child.stdin.write('\n')
      return Number((await lines.next()).value)
    },
    async end() {
      const ended = once(child, 'exit')
      child.stdin.end()
      await ended
    },
  }
}
