import { mkdir, realpath } from 'node:fs/promises'
import { Layout } from './layout.ts'

/** Makes the directories of an engine. Returns where they are. */
export async function makeDirectories(stateDir: string, dataDir: string): Promise<Layout> {
  await mkdir(stateDir, { recursive: true, mode: 0o711 })
  const layout = new Layout(await realpath(stateDir), await realpath(dataDir))
  for (const path of [
    layout.burrowsDir,
    layout.sparesDir,
    layout.layersDir,
    layout.sumsDir,
    layout.snapshotsDir,
    layout.volumesDir,
    layout.rootMountPoint,
  ]) {
    await mkdir(path, { recursive: true, mode: 0o700 })
  }
  return layout
}
