/** Not read from package.json: the command line carries this in a bundle, far from that file. A test holds the two together. */
export const VERSION = '0.1.0'
