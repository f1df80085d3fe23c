import { release } from 'node:os'
import { join, resolve } from 'node:path'
import { hashFiles, hashOf } from '../hash-inputs.mjs'

/** @type {import('../run-steps.mjs').Step} */
export const criu = {
  id: 'criu',
  title: 'CRIU',
  scope: 'data',
  hint: 'Check the network, then run this again. `./dormouse doctor` shows what the kernel lacks.',
  // A CRIU that works with one kernel may not work with another.
  inputs: ({ repoDir }) =>
    hashOf(process.arch, release(), hashFiles(join(repoDir, 'packages/engine-linux/src/criu'), isSource)),
  async isInPlace({ dataDir }) {
    const { findCriu, isCriuUsable } = await import('@dormouse/engine-linux/setup')
    const found = await findCriu(dataDir)
    return found !== undefined && isCriuUsable(found)
  },
  async run({ report, signal }, { dataDir }) {
    const { installCriu, parseCriuPin } = await import('@dormouse/engine-linux/setup')
    const { DORMOUSE_CRIU_PIN: pin, DORMOUSE_CRIU_DEB: deb } = process.env
    await installCriu({
      dataDir,
      report,
      signal,
      pin: pin === undefined || pin === '' ? undefined : parseCriuPin(pin),
      deb: deb === undefined || deb === '' ? undefined : resolve(deb),
    })
  },
}

/** @param {string} path */
function isSource(path) {
  return path.endsWith('.ts') && !path.endsWith('.test.ts')
}
