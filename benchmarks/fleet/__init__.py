"""What a large fleet asks of disks, object storage and one Delta table: measured costs, and a simulation."""
