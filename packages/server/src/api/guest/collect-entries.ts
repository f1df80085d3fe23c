import { DormouseError } from '@dormouse/contracts'
import type { FileStatAnswer } from '@dormouse/contracts/http'
import { LIST_MAX_ENTRIES } from '@dormouse/contracts/http'
import type { FileStat } from '@dormouse/engine'
import { fileView } from './file-view.ts'

/** A listing as one answer. Throws `too_large`. */
export async function collectEntries(
  path: string,
  entries: AsyncIterable<FileStat>,
): Promise<FileStatAnswer[]> {
  const items: FileStatAnswer[] = []
  for await (const entry of entries) {
    if (items.length === LIST_MAX_ENTRIES) {
      throw new DormouseError('too_large', `${path}: more than ${LIST_MAX_ENTRIES} entries`, {
        hint: 'Send `Accept: application/x-ndjson`, or request less depth.',
      })
    }
    items.push(fileView(entry))
  }
  return items
}
