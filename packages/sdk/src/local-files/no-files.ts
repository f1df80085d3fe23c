import { DormouseError } from '../error.ts'
import type { LocalFiles } from './local-files.ts'

/** Browsers have no files. */
export const localFiles: LocalFiles = {
  saveFile: refuse,
  readTree: refuse,
  isDirectory: refuse,
  findFile: refuse,
  contentOf: refuse,
  makeDirectory: refuse,
  replaceFile: refuse,
  checkName: refuse,
  pathOf: refuse,
}

function refuse(): never {
  throw new DormouseError('host_unsupported', 'Only Node can read and write files of this machine', {
    hint: 'In a browser, use `files.write`, `files.readBytes` and the bytes of a result (`result.png`).',
  })
}
