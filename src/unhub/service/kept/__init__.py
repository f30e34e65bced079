"""What a service keeps on disk: versions of the correction, added items, marks, the log of queries; and pictures."""
