import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ServerProcess } from '../server/server-process.ts'
import type { Place } from './run-program.ts'

/** What a reader has after `./dormouse up` in the clone at `root`, with `dormouse` on the PATH. */
export async function readersPlace(
  root: string,
  { url, key, factory }: ServerProcess,
): Promise<Place & AsyncDisposable> {
  const cwd = await mkdtemp(join(tmpdir(), 'dormouse-docs-'))
  const bin = join(cwd, '.bin')
  await mkdir(bin)
  await symlink(join(root, 'dormouse'), join(bin, 'dormouse'))
  return {
    cwd,
    env: {
      PATH: `${bin}:${process.env['PATH']}`,
      HOME: factory.stateDir,
      LANG: 'C.UTF-8',
      PYTHONPATH: join(root, 'python'),
      PYTHONDONTWRITEBYTECODE: '1',
      DORMOUSE_DATA: factory.stateDir,
      DORMOUSE_URL: url,
      DORMOUSE_API_KEY: key,
    },
    [Symbol.asyncDispose]: () => rm(cwd, { recursive: true, force: true }),
  }
}
