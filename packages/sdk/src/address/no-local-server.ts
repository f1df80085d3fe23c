/** Browsers have no files, so they find no local server. */
export async function readLocalServer(_dataDir: string): Promise<undefined> {
  return undefined
}
