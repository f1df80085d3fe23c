import { LinuxEngine } from './linux-engine.ts'

/** For set-up, which has no engine of its own. Here the data directory is also the state directory. */
export async function prepareTemplate(dataDir: string, name: string): Promise<void> {
  await using engine = await LinuxEngine.open({ dataDir })
  await engine.prepareTemplate(name)
}

export async function isTemplatePrepared(dataDir: string, name: string): Promise<boolean> {
  await using engine = await LinuxEngine.open({ dataDir })
  return await engine.isTemplatePrepared(name)
}
