import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { type ImageFile, readImage, readSingleRecord } from './image-file.ts'
import { getMessage, getUint, setMessage, setUint } from './message.ts'

/** CRTOOLS_IMAGES_V1_1, which CRIU has written since 2015. */
const IMAGE_VERSION = 2n

const INVENTORY = { imageVersion: 1, rootIds: 3 } as const
const PSTREE = { pid: 1, parentPid: 2 } as const
const IDS_USER_NAMESPACE = 10

/** Throws when this code does not know the version of the dump. */
export async function readInventory(imageDir: string): Promise<ImageFile> {
  const image = await readImage(join(imageDir, 'inventory.img'))
  const version = getUint(image.records[0]?.message ?? [], INVENTORY.imageVersion)
  if (version === IMAGE_VERSION) return image
  throw new DormouseError(
    'host_unsupported',
    `The process image has version ${version}; this release of Dormouse reads version ${IMAGE_VERSION}.`,
  )
}

export async function readRootPid(imageDir: string): Promise<bigint> {
  const { records } = await readImage(join(imageDir, 'pstree.img'))
  const root = records.find(({ message }) => getUint(message, PSTREE.parentPid) === 0n)
  if (root === undefined) throw new Error('the process tree has no root')
  return getUint(root.message, PSTREE.pid)
}

/**
 * The dump ran outside of the burrow's user namespace, so CRIU recorded that as a nested one. The restore runs inside
 * of it. This makes it the root namespace, so that CRIU does not create another.
 */
export async function adoptUserNamespace(inventory: ImageFile, imageDir: string): Promise<void> {
  const rootPid = await readRootPid(imageDir)
  const ids = await readSingleRecord(join(imageDir, `ids-${rootPid}.img`))
  const [record] = inventory.records
  if (record === undefined) throw new Error('the inventory is empty')
  const rootIds = getMessage(record.message, INVENTORY.rootIds)
  setUint(rootIds, IDS_USER_NAMESPACE, getUint(ids, IDS_USER_NAMESPACE))
  setMessage(record.message, INVENTORY.rootIds, rootIds)
}
