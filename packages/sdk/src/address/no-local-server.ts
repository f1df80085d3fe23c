/** Where there are no files, there is no local server. */
export async function readLocalServer(_dataDir: string): Promise<undefined> {
  return undefined
}
