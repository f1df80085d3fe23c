import { once } from 'node:events'
import { mkdir, mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { Layout } from '../../packages/engine-linux/dist/host/layout.js'
import { untilInterrupted } from '../interruption.mjs'
import { removeState } from '../workbench.mjs'
import { clientOf } from './client.mjs'
import { startServer } from './start-server.mjs'

/**
 * Runs `work` with a server in a separate process on a separate state directory, and removes both afterwards, also
 * after a failure or an interruption. The directory of `state` stays, unless `remove` is set.
 */
export async function atServer({ data, state, remove }, work, config) {
  const stateDir = state ?? (await mkdtemp(join(data, 'bench-')))
  await mkdir(stateDir, { recursive: true, mode: 0o711 })
  const layout = new Layout(stateDir, data)
  const opened = []
  let opening
  const open = async () => {
    opening = startServer(stateDir, data, config)
    const server = await opening
    opened.push({ server, client: clientOf(server) })
    return opened.at(-1)
  }
  /** Ends the server with `kill -9` and starts it again. */
  const restart = async () => {
    const { server, client } = opened.at(-1)
    client.close()
    server.child.kill('SIGKILL')
    await once(server.child, 'exit')
    const began = performance.now()
    const again = await open()
    return { readyMs: performance.now() - began, ...again }
  }
  return untilInterrupted(
    async () => work({ ...(await open()), layout, stateDir, restart }),
    async () => {
      await opening?.catch(() => {})
      for (const { client, server } of opened) {
        client.close()
        await end(server)
      }
      if (state === undefined || remove) await removeState({ dataDir: data, stateDir, layout })
    },
  )
}

/** A terminal interrupts the server too, so it may have ended. */
async function end({ child }) {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
}
